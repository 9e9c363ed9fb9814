package sandboxd.policies.developer.git_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.git

asks(words, id) if id in fixture.ids(git.findings) with input as fixture.run([words])

test_forced_pushes_ask if {
	every words in [
		["git", "push", "--force"], ["git", "push", "-f"], ["git", "push", "--mirror"],
		["git", "push", "origin", "+main"], ["git", "push", "origin", ":topic"],
	] {
		asks(words, "developer.git.force_push")
	}
	not asks(["git", "push", "origin", "main"], "developer.git.force_push")
	not asks(["git", "fetch", "--force"], "developer.git.force_push")
}

test_lost_work_asks if {
	every words in [
		["git", "reset", "--hard"], ["git", "clean", "-f"], ["git", "checkout", "."], ["git", "checkout", "-f", "main"],
		["git", "checkout", "--", "a.go"], ["git", "stash", "drop"], ["git", "restore", "."],
		["git", "restore", "--staged", "--worktree", "."],
	] {
		asks(words, "developer.git.discard")
	}
	not asks(["git", "clean", "-f", "-n"], "developer.git.discard")
	not asks(["git", "restore", "--staged", "."], "developer.git.discard")
	not asks(["git", "reset", "a.go"], "developer.git.discard")
	not asks(["hg", "reset", "--hard"], "developer.git.discard")
}

test_lost_history_asks if {
	every words in [
		["git", "filter-branch"], ["git", "gc", "--prune"], ["git", "branch", "-D", "x"], ["bfg"],
		["git", "branch", "-d", "-f", "x"], ["git", "update-ref", "-d", "refs/heads/x"],
	] {
		asks(words, "developer.git.destroy_history")
	}
	not asks(["git", "branch", "-d", "x"], "developer.git.destroy_history")
	not asks(["git", "gc"], "developer.git.destroy_history")
}
