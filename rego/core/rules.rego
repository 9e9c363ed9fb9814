# METADATA
# title: Permission rules
# description: >-
#   The operator's rules, as data: lookups by whole keys, so their number does not
#   matter. Deny and ask hold when any part of the call matches, an allow only when
#   every part matches and nothing is unknown.
package sandboxd.policies.core.rules

import data.sandboxd.rules.allow
import data.sandboxd.rules.tighten

findings contains {
	"id": hit.id,
	"effect": hit.effect,
	"message": sprintf("the rule %q holds for this call of %s", [hit.id, input.tool.name]),
} if {
	not input.no_rule_applies
	some hit in tool_hits
}

findings contains {
	"id": hit.id,
	"effect": hit.effect,
	"message": sprintf("the rule %q holds for %s", [hit.id, command.name]),
	"subject": command.id,
} if {
	not input.no_rule_applies
	some [hit, command] in command_hits
}

findings contains {
	"id": hit.id,
	"effect": hit.effect,
	"message": sprintf("the rule %q holds for %s", [hit.id, path.raw]),
	"subject": path.id,
} if {
	not input.no_rule_applies
	some [hit, path] in path_hits
}

findings contains {
	"id": hit.id,
	"effect": hit.effect,
	"message": sprintf("the rule %q holds for %s", [hit.id, host.name]),
	"subject": host.id,
} if {
	not input.no_rule_applies
	some [hit, host] in host_hits
}

findings contains {
	"id": hit.id,
	"effect": "allow",
	"message": sprintf("the rule %q allows this call", [hit.id]),
} if {
	not input.no_rule_applies
	some hit in allowing
}

# The tool as a whole, and its parameters.

tool_hits contains hit if some hit in tighten.tools[input.tool.name]

tool_hits contains hit if some hit in tighten.servers[input.tool.server]

tool_hits contains hit if {
	params := tighten.params[input.tool.name]
	some name, value in input.params
	some hit in params[name][value]
}

tool_hits contains hit if {
	some name, hits in tighten.param_patterns[input.tool.name]
	some hit in hits
	is_string(input.params[name])
	regex.match(hit.regex, input.params[name])
}

# Deny and ask: by meaning. The tables are named first, so that a rule set without
# such rules costs nothing.

command_hits contains [hit, command] if {
	table := tighten.commands
	some command in input.commands
	some prefix in command.prefixes
	some hit in table[prefix]
	every flag in hit.flags {
		flag in command.flags
	}
}

command_hits contains [hit, command] if {
	table := tighten.lines
	some command in input.commands
	some hit in table[command.text]
}

command_hits contains [hit, command] if {
	table := tighten.command_patterns
	some command in input.commands
	some key in {"", command.name}
	some hit in table[key]
	some text in {command.text, concat(" ", array.concat([command.name], command.operands))}
	regex.match(hit.regex, text)
}

path_hits contains [hit, path] if {
	table := tighten.paths
	some path in input.paths
	some dir in path.under
	some hit in table[path.op][dir]
}

path_hits contains [hit, path] if {
	table := tighten.path_patterns
	some path in input.paths
	some dir in path.under
	some hit in table[path.op][dir]
	some form in path.forms
	regex.match(hit.regex, form)
}

path_hits contains [hit, path] if {
	table := tighten.inside
	some path in input.paths
	path.recursive
	some form in path.forms
	some hit in table[path.op][form]
}

host_hits contains [hit, host] if {
	table := tighten.hosts
	some host in input.hosts
	some hit in table[host.name]
}

host_hits contains [hit, host] if {
	table := tighten.subdomains
	some host in input.hosts
	some suffix in host.suffixes
	suffix != host.name
	some hit in table[suffix]
}

# Allow: everything, as written.

allowing contains hit if some hit in allow.tools[input.tool.name]

allowing contains hit if some hit in allow.servers[input.tool.server]

allowing contains hit if {
	params := allow.params[input.tool.name]
	some name, value in input.params
	some hit in params[name][value]
}

allowing contains hit if {
	some name, hits in allow.param_patterns[input.tool.name]
	some hit in hits
	is_string(input.params[name])
	regex.match(hit.regex, input.params[name])
}

allowing contains hit if {
	count(input.commands) > 0
	count(input.opaque) == 0
	input.tool.class == "exec"
	allowed := {id | some [_, id] in command_allows}
	count(allowed) == count(input.commands)
	some [hit, _] in command_allows
}

allowing contains hit if {
	count(input.paths) > 0
	input.tool.class in {"read", "write"}
	allowed := {id | some [_, id] in path_allows}
	count(allowed) == count(input.paths)
	some [hit, _] in path_allows
}

allowing contains hit if {
	count(input.hosts) > 0
	input.tool.class == "net"
	allowed := {id | some [_, id] in host_allows}
	count(allowed) == count(input.hosts)
	some [hit, _] in host_allows
}

command_allows contains [hit, command.id] if {
	table := allow.commands
	some command in input.commands
	command.plain
	some words in command.literal
	some hit in table[words]
}

command_allows contains [hit, command.id] if {
	table := allow.lines
	some command in input.commands
	command.plain
	some hit in table[command.text]
}

command_allows contains [hit, command.id] if {
	table := allow.command_patterns
	some command in input.commands
	command.plain
	some key in {"", command.name}
	some hit in table[key]
	regex.match(hit.regex, command.text)
}

path_allows contains [hit, path.id] if {
	table := allow.paths
	some path in input.paths
	some dir in path.under
	some hit in table[path.op][dir]
}

path_allows contains [hit, path.id] if {
	table := allow.path_patterns
	some path in input.paths
	some dir in path.under
	some hit in table[path.op][dir]
	some form in path.forms
	regex.match(hit.regex, form)
}

host_allows contains [hit, host.id] if {
	table := allow.hosts
	some host in input.hosts
	some hit in table[host.name]
}

host_allows contains [hit, host.id] if {
	table := allow.subdomains
	some host in input.hosts
	some suffix in host.suffixes
	suffix != host.name
	some hit in table[suffix]
}
