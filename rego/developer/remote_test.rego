package sandboxd.policies.developer.remote_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.remote

ids(does) := found if {
	found := fixture.ids(remote.findings) with input as fixture.having(
		["remote"],
		{"remote": [{"program": "aws", "verb": "s3 rm", "target": "", "does": does}]},
	)
}

test_each_act if {
	ids("destroys") == {"developer.remote.destroys"}
	ids("changes") == {"developer.remote.changes"}
	count(ids("publishes")) == 0
}
