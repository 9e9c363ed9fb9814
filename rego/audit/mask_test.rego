package sandboxd.audit.mask_test

import data.sandboxd.audit.mask

test_secrets_by_name if {
	mask.mask == {"/params/api_key", "/params/Password", "/params/x~1token"} with input as {"params": {
		"api_key": "k", "Password": "p", "x/token": "t", "command": "ls",
	}}
}

test_every_word_that_names_a_secret if {
	names := {
		"passwd", "password", "PASSWORD_FILE", "client_secret", "token", "access-token", "apikey", "api_key", "credentials",
		"Authorization", "proxy_authorization", "cookie", "Set-Cookie", "privatekey", "private_key",
	}
	every name in names {
		mask.mask == {concat("", ["/params/", name])} with input as {"params": {name: "s"}}
	}
}

test_ordinary_names_stay if {
	count(mask.mask) == 0 with input as {"params": {"command": "c", "file_path": "f", "content": "x", "key": "k", "pass": "p"}}
}
