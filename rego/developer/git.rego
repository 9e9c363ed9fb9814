# METADATA
# title: Git
# description: >-
#   Asks before published history is replaced or work is thrown away. What a command throws away is a fact: options in any
#   place, abbreviated or in a cluster, refspecs and settings on the line are read as git reads them.
package sandboxd.policies.developer.git

# METADATA
# title: Forced push
# description: A forced push replaces history that others may have. Ordinary pushes and dry runs pass.
# custom:
#   match:
#     - git push --force
#     - git push -f origin main
#     - git -C sub push -fu origin main
#     - git push --force-with-lease
#     - git push --forc origin main
#     - git push origin +main
#     - git push --mirror
#     - git push origin --delete topic
#     - git push origin :topic
#     - git -c push.default=current push --force
#     - git -c remote.origin.push=+main push
#   not_match:
#     - git push
#     - git push -u origin main
#     - git push origin main:topic
#     - git push --force --dry-run
#     - git fetch --force
findings contains {
	"id": "developer.git.force_push",
	"effect": "ask",
	"message": "this push replaces or deletes history on the remote",
	"hint": "push without force, or to a new branch",
	"subject": command.id,
} if {
	"discards" in input.effects
	some command in input.commands
	"remote_refs" in command.discards
}

# METADATA
# title: Work thrown away
# description: Changes that are in no commit are lost. Branch switches and resets that keep files pass.
# custom:
#   match:
#     - git reset --hard
#     - git reset --keep HEAD~1
#     - git -C sub reset --hard HEAD~1
#     - git clean -fd
#     - git checkout -- .
#     - git checkout .
#     - git checkout ./
#     - git checkout HEAD src
#     - git checkout -qf main
#     - git restore a.go
#     - git switch --discard main
#     - git rm -rfq .
#     - git diff | git apply -R
#     - git stash clear
#     - git stash drop
#     - git worktree remove --force ../x
#   not_match:
#     - git reset HEAD a.go
#     - git clean -n
#     - git clean -nfd
#     - git checkout main
#     - git checkout -bfix/foo
#     - git switch -cfeature
#     - git restore --staged a.go
#     - git rm -r --cached src
#     - git stash
#     - git apply fix.patch
findings contains {
	"id": "developer.git.discard",
	"effect": "ask",
	"undoable": true,
	"message": "this throws away work that is in no commit",
	"hint": "commit or git stash first",
	"subject": command.id,
} if {
	"discards" in input.effects
	some command in input.commands
	some what in command.discards
	what in {"work", "untracked", "stash"}
}

# METADATA
# title: Branch or tag moved
# description: The commits that it named may be named by nothing else. New branches and merged ones pass.
# custom:
#   match:
#     - git branch -D topic
#     - git branch -d -f topic
#     - git branch -f main HEAD~3
#     - git checkout -B main HEAD~3
#     - git fetch origin +main:main
#     - git update-ref -d refs/heads/main
#     - git tag -d v1
#   not_match:
#     - git branch -d topic
#     - git branch topic
#     - git fetch origin +refs/heads/*:refs/remotes/origin/*
#     - git tag v1
findings contains {
	"id": "developer.git.refs",
	"effect": "ask",
	"undoable": true,
	"message": "this moves or deletes a branch or tag, whose commits nothing else may name",
	"hint": "make a new branch; git branch -d deletes one that is merged",
	"subject": command.id,
} if {
	"discards" in input.effects
	some command in input.commands
	"refs" in command.discards
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
#     - git -c gc.reflogExpire=now gc
#     - git prune
#   not_match:
#     - git rebase main
#     - git commit --amend
#     - git gc
#     - git reflog
findings contains {
	"id": "developer.git.destroy_history",
	"effect": "ask",
	"undoable": true,
	"message": "this can make commits unreachable for good",
	"subject": command.id,
} if {
	"discards" in input.effects
	some command in input.commands
	some what in command.discards
	what in {"reflog", "history"}
}
