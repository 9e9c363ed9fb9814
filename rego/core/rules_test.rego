package sandboxd.policies.core.rules_test

import data.sandboxd.fixture
import data.sandboxd.policies.core.rules

deny := [{"id": "d", "effect": "deny"}]

allow := [{"id": "a", "effect": "allow"}]

push := fixture.run([["git", "push", "-f"]])

edit := fixture.touch("Edit", "write", "/src/a.go", "write")

fetch := object.union(fixture.run([]), {
	"tool": {"name": "WebFetch", "class": "net", "server": ""},
	"hosts": [{"id": "host:0", "name": "a.x.org", "suffixes": ["a.x.org", "x.org", "org"]}],
	"params": {"url": "https://a.x.org", "n": 1},
})

# denied is true when this deny table holds for the call.
denied(table, call) if {
	some finding in rules.findings with input as call
		with data.sandboxd.rules as {"tighten": table, "allow": {}}
	finding.id == "d"
	finding.effect == "deny"
}

# allowed is true when this allow table holds for the call.
allowed(table, call) if {
	some finding in rules.findings with input as call
		with data.sandboxd.rules as {"tighten": {}, "allow": table}
	finding.id == "a"
	finding.effect == "allow"
}

test_deny_tool if {
	denied({"tools": {"Bash": deny}}, push)
	not denied({"tools": {"Read": deny}}, push)
}

test_deny_server if {
	call := object.union(push, {"tool": {"name": "mcp__git__x", "server": "git"}})
	denied({"servers": {"git": deny}}, call)
	not denied({"servers": {"other": deny}}, call)
}

test_deny_parameter if {
	denied({"params": {"WebFetch": {"url": {"https://a.x.org": deny}}}}, fetch)
	not denied({"params": {"WebFetch": {"url": {"https://b": deny}}}}, fetch)
	denied({"param_patterns": {"WebFetch": {"url": [{"id": "d", "effect": "deny", "regex": "^https"}]}}}, fetch)
	denied({"param_patterns": {"WebFetch": {"n": [{"id": "d", "effect": "deny", "regex": "1"}]}}}, fetch)
	not denied({"param_patterns": {"WebFetch": {"n": [{"id": "d", "effect": "deny", "regex": "2"}]}}}, fetch)
	not denied({"param_patterns": {"WebFetch": {"absent": [{"id": "d", "effect": "deny", "regex": ""}]}}}, fetch)
}

test_deny_command if {
	denied({"commands": {"git push": [{"id": "d", "effect": "deny", "flags": []}]}}, push)
	denied({"commands": {"git push": [{"id": "d", "effect": "deny", "flags": ["-f"]}]}}, push)
	not denied({"commands": {"git push": [{"id": "d", "effect": "deny", "flags": ["-u"]}]}}, push)
	denied({"lines": {"git push -f": deny}}, push)
	not denied({"lines": {"git push": deny}}, push)
	denied({"command_patterns": {"git": [{"id": "d", "effect": "deny", "regex": "^git p.*$"}]}}, push)
	denied({"command_patterns": {"": [{"id": "d", "effect": "deny", "regex": " push$"}]}}, push)
}

test_deny_path if {
	denied({"paths": {"write": {"/src": deny}}}, edit)
	denied({"paths": {"write": {".": deny}}}, edit)
	not denied({"paths": {"read": {"/src": deny}}}, edit)
	denied({"path_patterns": {"write": {".": [{"id": "d", "effect": "deny", "regex": "[.]go$"}]}}}, edit)
	not denied({"path_patterns": {"write": {".": [{"id": "d", "effect": "deny", "regex": "[.]md$"}]}}}, edit)
}

test_deny_inside_a_tree if {
	tree := json_path_recursive(edit)
	denied({"inside": {"write": {"/src/a.go": deny}}}, tree)
	not denied({"inside": {"write": {"/src/a.go": deny}}}, edit)
}

json_path_recursive(call) := object.union(call, {"paths": [object.union(call.paths[0], {"recursive": true})]})

test_deny_host if {
	denied({"hosts": {"a.x.org": deny}}, fetch)
	not denied({"hosts": {"x.org": deny}}, fetch)
	denied({"subdomains": {"x.org": deny}}, fetch)
	not denied({"subdomains": {"a.x.org": deny}}, fetch)
}

test_allow_tool if {
	allowed({"tools": {"Bash": allow}}, push)
	allowed({"servers": {"git": allow}}, object.union(push, {"tool": {"name": "mcp__git__x", "server": "git"}}))
	allowed({"params": {"WebFetch": {"url": {"https://a.x.org": allow}}}}, fetch)
	allowed({"param_patterns": {"WebFetch": {"url": [{"id": "a", "effect": "allow", "regex": "^https"}]}}}, fetch)
	allowed({"param_patterns": {"WebFetch": {"n": [{"id": "a", "effect": "allow", "regex": "1"}]}}}, fetch)
	not allowed({"param_patterns": {"WebFetch": {"n": [{"id": "a", "effect": "allow", "regex": "2"}]}}}, fetch)
	not allowed({"param_patterns": {"WebFetch": {"absent": [{"id": "a", "effect": "allow", "regex": ""}]}}}, fetch)
}

test_allow_command_as_written if {
	allowed({"commands": {"git push": allow}}, push)
	allowed({"lines": {"git push -f": allow}}, push)
	allowed({"command_patterns": {"git": [{"id": "a", "effect": "allow", "regex": "^git"}]}}, push)
	not allowed({"command_patterns": {"git": [{"id": "a", "effect": "allow", "regex": "^hg"}]}}, push)
}

test_allow_wants_every_command if {
	two := fixture.run([["git", "push"], ["ls"]])
	not allowed({"commands": {"git push": allow}}, two)
	allowed({"commands": {"git push": allow, "ls": allow}}, two)
}

test_allow_wants_plain_commands if {
	hidden := object.union(push, {"commands": [object.union(push.commands[0], {"plain": false})]})
	not allowed({"commands": {"git push": allow}}, hidden)
	not allowed({"lines": {"git push -f": allow}}, hidden)
	not allowed({"command_patterns": {"git": [{"id": "a", "effect": "allow", "regex": "^git"}]}}, hidden)
}

test_allow_wants_nothing_opaque if {
	not allowed({"commands": {"git push": allow}}, object.union(push, {"opaque": [{"id": "opaque:0"}]}))
}

test_allow_wants_the_class if {
	odd := object.union(push, {"tool": {"name": "X", "class": "state", "server": ""}})
	not allowed({"commands": {"git push": allow}}, odd)
	not allowed({"paths": {"write": {".": allow}}}, object.union(edit, {"tool": {"class": "exec"}}))
	not allowed({"hosts": {"a.x.org": allow}}, object.union(fetch, {"tool": {"class": "exec"}}))
}

test_allow_path if {
	allowed({"paths": {"write": {"/src": allow}}}, edit)
	allowed({"path_patterns": {"write": {".": [{"id": "a", "effect": "allow", "regex": "[.]go$"}]}}}, edit)
	not allowed({"path_patterns": {"write": {".": [{"id": "a", "effect": "allow", "regex": "[.]md$"}]}}}, edit)
}

test_allow_wants_every_path if {
	other := fixture.touch("Edit", "write", "/etc/x", "write").paths[0]
	not allowed({"paths": {"write": {"./a.go": allow}}}, object.union(edit, {"paths": [edit.paths[0], object.union(other, {"id": "path:1"})]}))
}

test_allow_host if {
	allowed({"hosts": {"a.x.org": allow}}, fetch)
	allowed({"subdomains": {"x.org": allow}}, fetch)
	not allowed({"subdomains": {"a.x.org": allow}}, fetch)
}

test_allow_wants_every_host if {
	not allowed({"hosts": {"a.x.org": allow}}, object.union(fetch, {"hosts": [
		fetch.hosts[0],
		{"id": "host:1", "name": "y.org", "suffixes": ["y.org"]},
	]}))
}

test_nothing_is_allowed_without_subjects if {
	not allowed({"commands": {"git": allow}}, fixture.run([]))
	not allowed({"paths": {"write": {".": allow}}}, object.union(edit, {"paths": []}))
	not allowed({"hosts": {"x": allow}}, object.union(fetch, {"hosts": []}))
}
