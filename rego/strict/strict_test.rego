package sandboxd.policies.strict.strict_test

import data.sandboxd.fixture
import data.sandboxd.policies.strict.strict

test_what_no_rule_allows_is_denied if {
	fixture.ids(strict.findings) == {"strict.not_allowed"} with input as fixture.run([["ls"]])
}

test_reading_passes if {
	count(strict.findings) == 0 with input as fixture.touch("Read", "read", "/src/a", "read")
}

test_a_rule_allows if {
	count(strict.findings) == 0 with input as fixture.run([["ls"]])
		with data.sandboxd.rules as {"tighten": {}, "allow": {"commands": {"ls": [{"id": "allow ls", "effect": "allow"}]}}}
}
