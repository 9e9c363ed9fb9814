# METADATA
# title: Single files
# description: >-
#   Asks before the only copy of a file goes: one that is deleted, emptied, replaced or written anew, and whose content git does
#   not have. Trees and lists of files are developer.deletes.
package sandboxd.policies.developer.lost

import data.sandboxd.policies.developer.deletes

# METADATA
# title: File lost
# description: >-
#   A file that git does not track, or that has changed since it was added, is deleted, emptied, overwritten or replaced. What git has
#   passes, and so do new and empty files, appending, editing in place, build output, temporary files, what the same session has
#   made, and a Write of what the same session has read.
# custom:
#   not_match:
#     - echo x > new.txt
#     - echo x >> notes.txt
#     - sed -i s/a/b/ a.go
#     - go build -o bin/app .
findings contains {
	"id": "developer.files.lost",
	"effect": "ask",
	"undoable": true,
	"message": sprintf("%s would be gone, and git has no copy of what is in it now", [gone.path]),
	"hint": hint,
	"subject": path.id,
} if {
	"loses" in input.effects
	some path in input.paths
	some gone in path.loses
	not deletes.passes(gone)
}

default hint := "git add it first, append, or write into another file"

hint := "read it first, or git add it" if input.tool.name == "Write"
