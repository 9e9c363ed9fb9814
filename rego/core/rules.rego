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
	some hit in whole_tool(tighten)
}

findings contains {
	"id": hit.id,
	"effect": hit.effect,
	"message": sprintf("the rule %q holds for %s", [hit.id, command.name]),
	"subject": command.id,
} if {
	some command in input.commands
	some hit in command_hits(command)
}

findings contains {
	"id": hit.id,
	"effect": hit.effect,
	"message": sprintf("the rule %q holds for %s", [hit.id, path.raw]),
	"subject": path.id,
} if {
	some path in input.paths
	some hit in path_hits(path)
}

findings contains {
	"id": hit.id,
	"effect": hit.effect,
	"message": sprintf("the rule %q holds for %s", [hit.id, host.name]),
	"subject": host.id,
} if {
	some host in input.hosts
	some hit in host_hits(host, tighten)
}

findings contains {
	"id": hit.id,
	"effect": "allow",
	"message": sprintf("the rule %q allows this call", [hit.id]),
} if {
	some hit in allowing
}

# What is true of the tool as a whole, in either table.

whole_tool(table) := union({
	{hit | some hit in table.tools[input.tool.name]},
	{hit | some hit in table.servers[input.tool.server]},
	{hit |
		some name, value in input.params
		some hit in table.params[input.tool.name][name][value]
	},
	{hit |
		some name, hits in table.param_patterns[input.tool.name]
		some hit in hits
		is_string(input.params[name])
		regex.match(hit.regex, input.params[name])
	},
})

host_hits(host, table) := union({
	{hit | some hit in table.hosts[host.name]},
	{hit |
		some suffix in host.suffixes
		suffix != host.name
		some hit in table.subdomains[suffix]
	},
})

# Deny and ask: by meaning.

command_hits(command) := union({
	{hit |
		some prefix in command.prefixes
		some hit in tighten.commands[prefix]
		every flag in hit.flags {
			flag in command.flags
		}
	},
	{hit | some hit in tighten.lines[command.text]},
	{hit |
		some key in {"", command.name}
		some hit in tighten.command_patterns[key]
		some text in {command.text, concat(" ", array.concat([command.name], command.operands))}
		regex.match(hit.regex, text)
	},
})

path_hits(path) := union({
	{hit |
		some dir in path.under
		some hit in tighten.paths[path.op][dir]
	},
	{hit |
		some dir in path.under
		some hit in tighten.path_patterns[path.op][dir]
		some form in path.forms
		regex.match(hit.regex, form)
	},
	{hit |
		path.recursive
		some form in path.forms
		some hit in tighten.inside[path.op][form]
	},
})

# Allow: everything, as written.

allowing contains hit if {
	some hit in whole_tool(allow)
}

allowing contains hit if {
	input.tool.class == "exec"
	count(input.commands) > 0
	count(input.opaque) == 0
	every command in input.commands {
		count(command_allows(command)) > 0
	}
	some command in input.commands
	some hit in command_allows(command)
}

allowing contains hit if {
	input.tool.class in {"read", "write"}
	count(input.paths) > 0
	every path in input.paths {
		count(path_allows(path)) > 0
	}
	some path in input.paths
	some hit in path_allows(path)
}

allowing contains hit if {
	input.tool.class == "net"
	count(input.hosts) > 0
	every host in input.hosts {
		count(host_hits(host, allow)) > 0
	}
	some host in input.hosts
	some hit in host_hits(host, allow)
}

command_allows(command) := {hit |
	command.plain
	some hit in command_matches(command)
}

command_matches(command) := union({
	{hit |
		some words in command.literal
		some hit in allow.commands[words]
	},
	{hit | some hit in allow.lines[command.text]},
	{hit |
		some key in {"", command.name}
		some hit in allow.command_patterns[key]
		regex.match(hit.regex, command.text)
	},
})

path_allows(path) := union({
	{hit |
		some dir in path.under
		some hit in allow.paths[path.op][dir]
	},
	{hit |
		some dir in path.under
		some hit in allow.path_patterns[path.op][dir]
		some form in path.forms
		regex.match(hit.regex, form)
	},
})
