package sandboxd.audit.mask_test

import data.sandboxd.audit.mask

test_secrets_by_name if {
	mask.mask == {"/params/api_key", "/params/Password", "/params/x~1token"} with input as {"params": {
		"api_key": "k", "Password": "p", "x/token": "t", "command": "ls",
	}}
}
