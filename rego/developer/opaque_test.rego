package sandboxd.policies.developer.opaque_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.opaque

ids(run) := found if {
	found := fixture.ids(opaque.findings) with input as fixture.having(["runs_text"], {"runs_text": [run]})
}

test_made_text_asks if {
	every from in ["decoder", "download", "text", "unknown"] {
		ids({"from": from, "does": "", "part": "x"}) == {"developer.opaque.made"}
	}
	opaque.named({"name": ""}) == "the shell"
}

test_code_in_words_asks if {
	every does in ["deletes", "starts", "hides"] {
		ids({"from": "words", "does": does, "part": "x"}) == {"developer.opaque.words"}
	}
}

test_a_download_in_the_pipe_is_asked_about_elsewhere if {
	made := {"piped_net": true, "runs_text": [{"from": "download", "does": "", "part": "curl"}]}
	count(opaque.findings) == 0 with input as fixture.having(["runs_text"], object.union(made, {"name": "sh"}))
	count(opaque.findings) == 1 with input as fixture.having(["runs_text"], object.union(made, {"name": "trap"}))
}
