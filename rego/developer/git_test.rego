package sandboxd.policies.developer.git_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.git

ids(what) := found if {
	found := fixture.ids(git.findings) with input as fixture.having(["discards"], {"discards": [what]})
}

test_each_loss_asks if {
	ids("remote_refs") == {"developer.git.force_push"}
	ids("work") == {"developer.git.discard"}
	ids("untracked") == {"developer.git.discard"}
	ids("stash") == {"developer.git.discard"}
	ids("refs") == {"developer.git.refs"}
	ids("reflog") == {"developer.git.destroy_history"}
	ids("history") == {"developer.git.destroy_history"}
}

test_nothing_lost_passes if count(git.findings) == 0 with input as fixture.run([["git", "push"]])
