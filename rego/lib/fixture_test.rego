# METADATA
# title: Fixtures
# description: Parts of the input document for tests.
package sandboxd.fixture

# command is one program start; the words are as the shell would give them.
command(words) := {
	"id": "command:0",
	"name": words[0],
	"argv": words,
	"text": concat(" ", words),
	"prefixes": [concat(" ", array.slice(plain, 0, i + 1)) | some i, _ in plain],
	"literal": [concat(" ", array.slice(words, 0, i + 1)) | some i, _ in words],
	"flags": [word | some word in words; startswith(word, "-")],
	"operands": array.slice(plain, 1, count(plain)),
	"dir": "/src",
	"hosts": [],
	"plain": true,
	"piped_net": false,
	"deletes": [],
	"discards": [],
	"publishes": [],
	"remote": [],
	"runs_text": [],
} if {
	plain := [word | some word in words; not startswith(word, "-")]
}

# run is a call that starts commands, each a list of words.
run(commands) := {
	"tool": {"name": "Bash", "class": "exec", "read_only": false, "server": ""},
	"params": {},
	"commands": started,
	"starts": [prefix | some c in started; some prefix in c.prefixes],
	"elsewhere": false,
	"effects": [],
	"plants": [],
	"authors": [],
	"rule_kinds": every_kind,
	"paths": [],
	"hosts": [],
	"opaque": [],
	"settings": {"allow_nested_sandbox": false, "workspace_roots": ["/src"]},
} if {
	started := [object.union(command(words), {"id": sprintf("command:%d", [i])}) | some i, words in commands]
}

# having is a call of one command with these effects, and of these kinds.
having(kinds, effects) := object.union(run([]), {
	"effects": kinds,
	"commands": [object.union(command(["x"]), effects)],
})

# touch is a call of a file tool on one path below /src.
touch(name, class, path, op) := {
	"tool": {"name": name, "class": class, "read_only": class == "read", "server": ""},
	"params": {"file_path": path},
	"commands": [],
	"starts": [],
	"elsewhere": false,
	"effects": [],
	"plants": [],
	"authors": [],
	"rule_kinds": every_kind,
	"paths": [{
		"id": "path:0",
		"raw": path,
		"path": path,
		"op": op,
		"recursive": false,
		"base": segments[count(segments) - 1],
		"segments": segments,
		"forms": [path, concat("", [".", trim_prefix(path, "/src")])],
		"spelled": [],
		"spelled_in": [],
		"looks": false,
		"runs_later": "",
		"loses": [],
		"under": [path, "/src", "/", concat("", [".", trim_prefix(path, "/src")]), "."],
	}],
	"hosts": [],
	"opaque": [],
	"settings": {"allow_nested_sandbox": false, "workspace_roots": ["/src"]},
} if {
	segments := split(trim_prefix(path, "/"), "/")
}

# every_kind: the tests of permission rules look at all tables.
every_kind := [sprintf("%s.%s", [list, kind]) |
	some list in ["tighten", "allow"]
	some kind in [
		"tools", "servers", "params", "param_patterns", "lines", "commands", "command_patterns",
		"paths", "path_patterns", "inside", "hosts", "subdomains",
	]
]

# ids are the rules that have a finding.
ids(findings) := {finding.id | some finding in findings}
