package sandboxd.policies.developer.fetched_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.fetched

piped(words) := object.union(fixture.run([words]), {"commands": [object.union(fixture.command(words), {"piped_net": true})]})

test_an_interpreter_asks if count(fetched.findings) == 1 with input as piped(["sh"])

test_a_filter_passes if count(fetched.findings) == 0 with input as piped(["jq", "."])

test_without_network_passes if count(fetched.findings) == 0 with input as fixture.run([["sh"]])
