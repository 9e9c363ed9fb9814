# METADATA
# title: Files
# description: Asks before files change that make other programs run code.
package sandboxd.policies.developer.files

# METADATA
# title: Files that make programs run code
# description: >-
#   Files that a program of the host obeys by itself (direnv, git, an editor, an agent) run
#   later, outside this sandbox, at any depth. docs/later.md has their names.
findings contains {
	"id": "developer.files.runs_later",
	"effect": "ask",
	"message": sprintf("%s makes other programs run code later (%s)", [path.raw, path.runs_later]),
	"subject": path.id,
} if {
	some path in input.paths
	path.op == "write"
	path.runs_later != ""
}

# METADATA
# title: Files of a git directory
# description: Whatever lies in it, also files that git does not obey by themselves.
findings contains {
	"id": "developer.files.runs_later",
	"effect": "ask",
	"message": sprintf("%s makes other programs run code later (git)", [path.raw]),
	"subject": path.id,
} if {
	some path in input.paths
	path.op == "write"
	path.runs_later == ""
	".git" in path.segments
}
