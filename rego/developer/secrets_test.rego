package sandboxd.policies.developer.secrets_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.secrets

reads(path) := found if {
	found := fixture.ids(secrets.findings) with input as fixture.touch("Read", "read", path, "read")
}

test_secret_files_ask if {
	every path in ["/src/.env", "/src/.env.local", "/src/a/server.pem", "/src/id_rsa"] {
		reads(path) == {"developer.secrets.file"}
	}
}

test_other_files_pass if {
	every path in ["/src/.env.example", "/src/main.go", "/src/id_rsa.pub", "/src/keys.go"] {
		reads(path) == set()
	}
	count(secrets.findings) == 0 with input as fixture.touch("Write", "write", "/src/.env", "write")
}
