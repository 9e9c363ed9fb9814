# METADATA
# title: Changes
# description: >-
#   Asks before files stay deleted, whatever deleted them: what a call did is a fact, also where nobody could read its command.
package sandboxd.policies.developer.changes

# METADATA
# title: Work deleted
# description: >-
#   A call deleted more than ten files that git tracks, or a file with content that is in no commit. Files that calls of the session
#   made, that git ignores or that are elsewhere now pass, and an undo does.
# custom:
#   match:
#     - command: make tidy
#       changes: [{path: /src/notes.md, kind: delete, uncommitted: true}]
#     - command: make tidy
#       changes: [{path: /src/a.go, kind: delete, tracked: true, uncommitted: true}]
#   not_match:
#     - make tidy
#     - command: make tidy
#       changes: [{path: /src/notes.md, kind: delete, uncommitted: true, own: true}]
#     - command: make tidy
#       changes: [{path: /src/notes.md, kind: delete, uncommitted: true, moved: true}]
#     - command: make tidy
#       changes: [{path: /src/a.go, kind: delete, tracked: true}, {path: /src/b.go, kind: modify, tracked: true, uncommitted: true}]
findings contains {
	"id": "developer.changes.deleted",
	"effect": "ask",
	"message": message(lost),
	"hint": "delete less in one call, or move files instead",
} if {
	input.changes[0]
	input.tool.name != "Undo"
	lost := [change |
		some change in input.changes
		change.kind == "delete"
		not change.own
		not change.moved
	]
	too_much(lost)
}

most_tracked := 10

too_much(lost) if count(uncommitted(lost)) > 0

too_much(lost) if count(tracked(lost)) > most_tracked

uncommitted(lost) := [change.path |
	some change in lost
	change.uncommitted
]

tracked(lost) := [change.path |
	some change in lost
	change.tracked
]

message(lost) := sprintf("the call deleted what is in no commit: %s", [named(uncommitted(lost))]) if count(uncommitted(lost)) > 0

message(lost) := sprintf("the call deleted %d files that git tracks: %s", [count(tracked(lost)), named(tracked(lost))]) if {
	count(uncommitted(lost)) == 0
}

named(paths) := concat(", ", paths) if count(paths) <= 3

named(paths) := sprintf("%s and %d more", [concat(", ", array.slice(paths, 0, 3)), count(paths) - 3]) if count(paths) > 3
