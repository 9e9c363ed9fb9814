# METADATA
# title: Git
# description: Asks before published history is replaced or work is thrown away.
package sandboxd.policies.developer.git

import data.sandboxd.lib

# METADATA
# title: Forced push
# description: A forced push replaces history that others may have. Ordinary pushes pass.
# custom:
#   match:
#     - git push --force
#     - git push -f origin main
#     - git -C sub push -fu origin main
#     - git push --force-with-lease
#     - git push origin +main
#     - git push --mirror
#     - git push origin --delete topic
#     - git push origin :topic
#     - git -c push.default=current push --force
#   not_match:
#     - git push
#     - git push -u origin main
#     - git push origin main:topic
#     - git fetch --force
findings contains {
	"id": "developer.git.force_push",
	"effect": "ask",
	"message": "this push replaces or deletes history on the remote",
	"hint": "push without force, or to a new branch",
	"subject": command.id,
} if {
	"git push" in input.starts
	some command in input.commands
	"git push" in command.prefixes
	forced(command)
}

forced(command) if lib.has_flag(command, {"--force", "-f", "--force-with-lease", "--force-if-includes", "--mirror", "--delete", "-d", "--prune"})

forced(command) if {
	some i, word in command.operands
	i > 0
	startswith(word, "+")
}

forced(command) if {
	some i, word in command.operands
	i > 0
	startswith(word, ":")
}

# METADATA
# title: Work thrown away
# description: Changes that are in no commit are lost. Branch switches and resets that keep files pass.
# custom:
#   match:
#     - git reset --hard
#     - git -C sub reset --hard HEAD~1
#     - git clean -fd
#     - git checkout -- .
#     - git checkout .
#     - git restore .
#     - git stash clear
#     - git stash drop
#   not_match:
#     - git reset HEAD a.go
#     - git clean -n
#     - git clean -nfd
#     - git checkout main
#     - git restore --staged a.go
#     - git stash
findings contains {
	"id": "developer.git.discard",
	"effect": "ask",
	"message": "this throws away work that is in no commit",
	"hint": "commit or git stash first",
	"subject": command.id,
} if {
	some verb in input.starts
	verb in {"git reset", "git clean", "git checkout", "git switch", "git restore", "git stash"}
	some command in input.commands
	verb in command.prefixes
	discards(command)
}

discards(command) if {
	"git reset" in command.prefixes
	lib.has_flag(command, {"--hard", "--merge"})
}

discards(command) if {
	"git clean" in command.prefixes
	lib.has_flag(command, {"-f", "--force"})
	not lib.has_flag(command, {"-n", "--dry-run"})
}

discards(command) if {
	some prefix in {"git checkout .", "git checkout :/", "git restore .", "git restore :/", "git stash clear", "git stash drop"}
	prefix in command.prefixes
	not only_staged(command)
}

discards(command) if {
	some verb in {"git checkout", "git switch"}
	verb in command.prefixes
	lib.has_flag(command, {"-f", "--force", "--discard-changes"})
}

discards(command) if {
	"git checkout" in command.prefixes
	"--" in command.argv
}

only_staged(command) if {
	lib.has_flag(command, {"--staged", "-S"})
	not lib.has_flag(command, {"--worktree", "-W"})
}

# METADATA
# title: History rewritten
# description: Commits become unreachable for good. Rebase and amend pass, since the reflog keeps what they replace.
# custom:
#   match:
#     - git filter-branch --all
#     - git filter-repo --path x
#     - git reflog expire --expire=now --all
#     - git gc --prune=now
#     - git update-ref -d refs/heads/main
#     - git branch -D topic
#   not_match:
#     - git rebase main
#     - git commit --amend
#     - git gc
#     - git branch -d topic
#     - git reflog
findings contains {
	"id": "developer.git.destroy_history",
	"effect": "ask",
	"message": "this can make commits unreachable for good",
	"subject": command.id,
} if {
	some verb in input.starts
	verb in {
		"git filter-branch", "git filter-repo", "git reflog", "git gc", "git update-ref", "git branch",
		"git-filter-repo", "bfg",
	}
	some command in input.commands
	verb in command.prefixes
	destroys(command)
}

destroys(command) if {
	some prefix in {"git filter-branch", "git filter-repo", "git reflog expire", "git reflog delete"}
	prefix in command.prefixes
}

destroys(command) if command.name in {"git-filter-repo", "bfg"}

destroys(command) if {
	"git gc" in command.prefixes
	lib.has_flag(command, {"--prune"})
}

destroys(command) if {
	"git update-ref" in command.prefixes
	lib.has_flag(command, {"-d", "--delete"})
}

destroys(command) if {
	"git branch" in command.prefixes
	lib.has_flag(command, {"-D"})
}

destroys(command) if {
	"git branch" in command.prefixes
	lib.has_flag(command, {"-d", "--delete"})
	lib.has_flag(command, {"-f", "--force"})
}
