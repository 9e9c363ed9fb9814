package sandboxd.policies.developer.printed_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.printed

runs(words) := found if {
	found := fixture.ids(printed.findings) with input as fixture.run([words])
}

test_printing_asks if {
	runs(["gh", "auth", "token"]) == {"developer.secrets.printed"}
	runs(["kubectl", "get", "secret", "-o", "yaml"]) == {"developer.secrets.printed"}
}

test_names_pass if {
	runs(["kubectl", "get", "secrets"]) == set()
	runs(["gh", "auth", "status"]) == set()
}
