# METADATA
# title: Provenance
# description: >-
#   Asks before text of a web page or an MCP server becomes an act.
package sandboxd.policies.developer.provenance

import data.sandboxd.provenance

# METADATA
# title: Written outside
# description: >-
#   An argument holds text of a web page or an MCP server, by reference or as a
#   copy, and the call runs a program, writes outside the workspace or what others run
#   by themselves, or reaches the network.
findings contains {
	"id": "developer.provenance.quoted",
	"effect": "ask",
	"message": act.message,
	"hint": "a person decides; text in your own words does not ask",
	"subject": act.subject,
} if {
	some author in input.authors
	author in provenance.outsiders
	some act in provenance.by_quote
}

# METADATA
# title: Heard outside
# description: >-
#   The model has read text of a web page or an MCP server, and the call publishes or
#   reaches a host that the settings do not list. In the sandbox this is known when a program
#   connects. A person can reset what the session has read.
# custom:
#   match:
#     - {command: "npm publish", origins: [web]}
#     - {command: "git push origin main", origins: [web]}
#     - {command: "make", origins: [web], connection: {host: x.example, port: 443, protocol: tls}}
#   not_match:
#     - {command: "curl https://x.example/", origins: [web]}
#     - {command: "make", origins: [repository, tool], connection: {host: x.example, port: 443, protocol: tls}}
#     - {tool: Read, args: {file_path: a}, origins: [mcp]}
findings contains {
	"id": "developer.provenance.heard",
	"effect": "ask",
	"message": act.message,
	"hint": "an operator can reset it: sandboxd vars origins --reset",
	"subject": act.subject,
} if {
	some author in input.origins.session
	author in provenance.outsiders
	some act in provenance.by_hearsay
}
