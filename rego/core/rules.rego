# METADATA
# title: Permission rules
# description: >-
#   The operator's rules, as data: lookups by whole keys; only patterns are matched
#   one by one. The engine passes over tables that hold nothing for a call, by the first
#   line of each rule. Deny and ask hold when any part of the call matches, an allow only when
#   every part matches and nothing is unknown.
package sandboxd.policies.core.rules

import data.sandboxd.rules.allow
import data.sandboxd.rules.tighten

findings contains {
	"id": hit.id,
	"effect": hit.effect,
	"message": sprintf("the rule %q holds for this call of %s", [hit.id, input.tool.name]),
} if {
	input.rule_kinds[0]
	some hit in tool_hits
}

findings contains {
	"id": hit.id,
	"effect": hit.effect,
	"message": sprintf("the rule %q holds for %s", [hit.id, command.name]),
	"subject": command.id,
} if {
	input.rule_kinds[0]
	some [hit, command] in command_hits
}

findings contains {
	"id": hit.id,
	"effect": hit.effect,
	"message": sprintf("the rule %q holds for %s", [hit.id, path.raw]),
	"subject": path.id,
} if {
	input.rule_kinds[0]
	some [hit, path] in path_hits
}

findings contains {
	"id": hit.id,
	"effect": hit.effect,
	"message": sprintf("the rule %q holds for %s", [hit.id, host.name]),
	"subject": host.id,
} if {
	input.rule_kinds[0]
	some [hit, host] in host_hits
}

findings contains {
	"id": hit.id,
	"effect": "allow",
	"message": sprintf("the rule %q allows this call", [hit.id]),
} if {
	input.rule_kinds[0]
	some hit in allowing
}

# The tool as a whole, and its parameters.

tool_hits contains hit if {
	"tighten.tools" in input.rule_kinds
	some hit in tighten.tools[input.tool.name]
}

tool_hits contains hit if {
	"tighten.servers" in input.rule_kinds
	some hit in tighten.servers[input.tool.server]
}

tool_hits contains hit if {
	"tighten.params" in input.rule_kinds
	params := tighten.params[input.tool.name]
	some name, _ in input.params
	some hit in params[name][text_of(name)]
}

tool_hits contains hit if {
	"tighten.param_patterns" in input.rule_kinds
	some name, hits in tighten.param_patterns[input.tool.name]
	some hit in hits
	regex.match(hit.regex, text_of(name))
}

# text_of is a parameter as a rule writes it: true, 3.
text_of(name) := sprintf("%v", [input.params[name]])

# Deny and ask: by meaning.

command_hits contains [hit, command] if {
	"tighten.commands" in input.rule_kinds
	some command in input.commands
	some prefix in command.prefixes
	some hit in tighten.commands[prefix]
	every flag in hit.flags {
		flag in command.flags
	}
}

command_hits contains [hit, command] if {
	"tighten.lines" in input.rule_kinds
	some command in input.commands
	some hit in tighten.lines[command.text]
}

command_hits contains [hit, command] if {
	"tighten.command_patterns" in input.rule_kinds
	some command in input.commands
	some key in {"", command.name}
	some hit in tighten.command_patterns[key]
	some text in {command.text, concat(" ", array.concat([command.name], command.operands))}
	regex.match(hit.regex, text)
}

path_hits contains [hit, path] if {
	"tighten.paths" in input.rule_kinds
	some path in input.paths
	some dir in array.concat(path.under, path.spelled_in)
	some hit in tighten.paths[path.op][dir]
}

path_hits contains [hit, path] if {
	"tighten.path_patterns" in input.rule_kinds
	some path in input.paths
	some dir in array.concat(path.under, path.spelled_in)
	some hit in tighten.path_patterns[path.op][dir]
	some form in array.concat(path.forms, path.spelled)
	regex.match(hit.regex, form)
}

path_hits contains [hit, path] if {
	"tighten.inside" in input.rule_kinds
	some path in input.paths
	path.recursive
	some form in array.concat(path.forms, path.spelled)
	some hit in tighten.inside[path.op][form]
}

host_hits contains [hit, host] if {
	"tighten.hosts" in input.rule_kinds
	some host in input.hosts
	some hit in tighten.hosts[host.name]
}

host_hits contains [hit, host] if {
	"tighten.subdomains" in input.rule_kinds
	some host in input.hosts
	some suffix in host.suffixes
	suffix != host.name
	some hit in tighten.subdomains[suffix]
}

# Allow: everything, as written.

allowing contains hit if {
	"allow.tools" in input.rule_kinds
	some hit in allow.tools[input.tool.name]
}

allowing contains hit if {
	"allow.servers" in input.rule_kinds
	some hit in allow.servers[input.tool.server]
}

allowing contains hit if {
	"allow.params" in input.rule_kinds
	params := allow.params[input.tool.name]
	some name, _ in input.params
	some hit in params[name][text_of(name)]
}

allowing contains hit if {
	"allow.param_patterns" in input.rule_kinds
	some name, hits in allow.param_patterns[input.tool.name]
	some hit in hits
	regex.match(hit.regex, text_of(name))
}

allowing contains hit if {
	input.tool.class == "exec"
	count(input.commands) > 0
	count(input.opaque) == 0
	allowed := {id | some [_, id] in command_allows}
	count(allowed) == count(input.commands)
	some [hit, _] in command_allows
}

allowing contains hit if {
	input.tool.class in {"read", "write"}
	count(input.paths) > 0
	allowed := {id | some [_, id] in path_allows}
	count(allowed) == count(input.paths)
	some [hit, _] in path_allows
}

allowing contains hit if {
	input.tool.class == "net"
	count(input.hosts) > 0
	allowed := {id | some [_, id] in host_allows}
	count(allowed) == count(input.hosts)
	some [hit, _] in host_allows
}

command_allows contains [hit, command.id] if {
	"allow.commands" in input.rule_kinds
	some command in input.commands
	command.plain
	some words in command.literal
	some hit in allow.commands[words]
}

command_allows contains [hit, command.id] if {
	"allow.lines" in input.rule_kinds
	some command in input.commands
	command.plain
	some hit in allow.lines[command.text]
}

command_allows contains [hit, command.id] if {
	"allow.command_patterns" in input.rule_kinds
	some command in input.commands
	command.plain
	some key in {"", command.name}
	some hit in allow.command_patterns[key]
	regex.match(hit.regex, command.text)
}

path_allows contains [hit, path.id] if {
	"allow.paths" in input.rule_kinds
	some path in input.paths
	some dir in path.under
	some hit in allow.paths[path.op][dir]
}

path_allows contains [hit, path.id] if {
	"allow.path_patterns" in input.rule_kinds
	some path in input.paths
	some dir in path.under
	some hit in allow.path_patterns[path.op][dir]
	some form in path.forms
	regex.match(hit.regex, form)
}

host_allows contains [hit, host.id] if {
	"allow.hosts" in input.rule_kinds
	some host in input.hosts
	some hit in allow.hosts[host.name]
}

host_allows contains [hit, host.id] if {
	"allow.subdomains" in input.rule_kinds
	some host in input.hosts
	some suffix in host.suffixes
	suffix != host.name
	some hit in allow.subdomains[suffix]
}
