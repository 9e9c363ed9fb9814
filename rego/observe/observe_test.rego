package sandboxd.policies.observe.observe_test

import data.sandboxd.fixture
import data.sandboxd.policies.observe.observe

test_everything_is_allowed if {
	every finding in observe.findings {
		finding.effect == "allow"
	} with input as fixture.having(["discards"], {"discards": ["remote_refs"]})
	"observe.all" in fixture.ids(observe.findings) with input as fixture.run([["ls"]])
}

test_what_developer_would_say_is_recorded if {
	"observe.would_ask" in fixture.ids(observe.findings) with input as fixture.having(["discards"], {"discards": ["remote_refs"]})
	not "observe.would_ask" in fixture.ids(observe.findings) with input as fixture.run([["ls"]])
}
