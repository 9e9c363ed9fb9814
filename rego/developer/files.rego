# METADATA
# title: Files
# description: Asks before a whole tree goes, and before files change that make other programs run code.
package sandboxd.policies.developer.files

# METADATA
# title: Tree deleted
# description: >-
#   A recursive delete of what a repository may track. Trees that tools make again
#   (node_modules, build, …), temporary directories and single files pass.
# custom:
#   match:
#     - rm -rf src
#     - rm -fr ./src
#     - rm --recursive --force src
#     - rm -r -f -- src
#     - rm -rf .
#     - rm -rf node_modules src
#     - sudo rm -Rf src
#     - find . -name '*.go' -delete
#   not_match:
#     - rm -rf node_modules
#     - rm -rf ./build dist/
#     - rm -rf /tmp/work/x
#     - rm a.go
#     - rm -f a.go
#     - find . -name '*.go'
findings contains {
	"id": "developer.files.delete_tree",
	"effect": "ask",
	"message": sprintf("%s deletes whole trees that are not known to be build output", [command.name]),
	"hint": "name single files, or delete build output only",
	"subject": command.id,
} if {
	some name in input.starts
	name in {"rm", "grm", "find", "shred", "wipefs", "mkfs", "srm"}
	some command in input.commands
	command.name == name
	deletes_tree(command)
}

deletes_tree(command) if {
	command.name in {"rm", "grm"}
	some flag in command.flags
	flag in {"-r", "-R", "--recursive"}
	some word in command.operands
	not disposable(word, command)
}

deletes_tree(command) if {
	command.name == "find"
	some flag in command.argv
	flag == "-delete"
}

deletes_tree(command) if command.name in {"shred", "wipefs", "mkfs", "srm"}

disposable(word, _) if {
	parts := split(trim_suffix(word, "/"), "/")
	last := parts[count(parts) - 1]
	last in regenerated
	not ".." in parts
}

disposable(word, _) if {
	some prefix in {"/tmp/", "/var/tmp/"}
	startswith(word, prefix)
	not ".." in split(word, "/")
}

disposable(word, command) if {
	not startswith(word, "/")
	startswith(command.dir, "/tmp/")
	not ".." in split(word, "/")
	not in_workspace_dir(command.dir)
}

in_workspace_dir(dir) if {
	some root in input.settings.workspace_roots
	dir == root
}

in_workspace_dir(dir) if {
	some root in input.settings.workspace_roots
	startswith(dir, concat("", [root, "/"]))
}

# regenerated are directories that tools make again from what is tracked.
regenerated := {
	"node_modules", "dist", "build", "out", "target", "bin", "obj", "coverage", "htmlcov", "tmp", "temp",
	"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".tox", ".nox", ".venv", "venv", ".eggs",
	".cache", ".parcel-cache", ".next", ".nuxt", ".svelte-kit", ".turbo", ".gradle", ".terraform", "DerivedData",
	".nyc_output", ".angular", ".vite", "_build", "storybook-static",
}

# METADATA
# title: Files that make programs run code
# description: Git hooks, editor tasks and shell startup files run later, outside this sandbox.
findings contains {
	"id": "developer.files.runs_later",
	"effect": "ask",
	"message": sprintf("%s makes other programs run code later", [path.raw]),
	"subject": path.id,
} if {
	some path in input.paths
	path.op == "write"
	runs_later(path)
}

runs_later(path) if {
	some segment in path.segments
	segment in {".git", ".sandboxd", ".vscode", ".idea", ".husky", ".claude", ".cursor", ".devcontainer"}
}

runs_later(path) if path.base in {
	".envrc", ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile",
	".gitconfig", ".gitmodules", ".npmrc", ".pypirc", ".mcp.json",
}
