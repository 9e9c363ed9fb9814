package sandboxd.policies.strict.provenance_test

import data.sandboxd.fixture
import data.sandboxd.policies.strict.provenance

written(authors) := object.union(fixture.run([["ls"]]), {"authors": authors, "origins": {"args": {"command": authors}, "session": []}})

test_a_quote_is_denied if {
	provenance.findings[_].id == "strict.provenance.quoted" with input as written(["model", "web"])
	provenance.findings[_].effect == "deny" with input as written(["mcp"])
}

test_own_words_pass if count(provenance.findings) == 0 with input as written(["model", "repository", "person", "rule", "tool"])
