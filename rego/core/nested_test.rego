package sandboxd.policies.core.nested_test

import data.sandboxd.fixture
import data.sandboxd.policies.core.nested

test_bwrap_is_denied if {
	some finding in nested.findings with input as fixture.run([["bwrap", "sh"]])
	finding.effect == "deny"
	finding.subject == "command:0"
}

test_container_start_is_denied if {
	count(nested.findings) == 1 with input as fixture.run([["docker", "run", "alpine"]])
}

test_container_query_passes if {
	count(nested.findings) == 0 with input as fixture.run([["docker", "ps"]])
}

test_the_setting_allows_it if {
	count(nested.findings) == 0 with input as object.union(
		fixture.run([["bwrap", "sh"]]),
		{"settings": {"allow_nested_sandbox": true}},
	)
}
