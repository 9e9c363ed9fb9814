package sandboxd.policies.developer.provenance_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.provenance

written(authors) := object.union(fixture.run([["ls"]]), {"authors": authors, "origins": {"args": {"command": authors}, "session": []}})

read(authors) := object.union(fixture.having(["publishes"], {"publishes": ["npm publish"]}), {"origins": {"args": {}, "session": authors}})

test_a_quote_asks if {
	provenance.findings[_].id == "developer.provenance.quoted" with input as written(["model", "web"])
	provenance.findings[_].effect == "ask" with input as written(["mcp"])
}

test_own_words_pass if count(provenance.findings) == 0 with input as written(["model", "repository", "person", "rule", "tool"])

test_hearsay_asks if {
	provenance.findings[_].id == "developer.provenance.heard" with input as read(["web"])
	provenance.findings[_].effect == "ask" with input as read(["model", "mcp"])
}

test_what_others_said_passes if count(provenance.findings) == 0 with input as read(["model", "repository", "tool"])
