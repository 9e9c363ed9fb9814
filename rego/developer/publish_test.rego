package sandboxd.policies.developer.publish_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.publish

test_publishing_asks if {
	[f.effect | some f in publish.findings] == ["ask"] with input as fixture.having(
		["publishes"],
		{"publishes": ["npm publish"]},
	)
}

test_others_pass if count(publish.findings) == 0 with input as fixture.run([["npm", "pack"]])
