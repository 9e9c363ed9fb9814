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
#   copy, and the call runs a program, writes outside the workspace or reaches the
#   network.
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
#   The model has read text of a web page or an MCP server, and the call reaches
#   the network or publishes. A person can reset what the session has read.
# custom:
#   match:
#     - {tool: WebFetch, class: net, hosts: [x.example], origins: [web]}
#   not_match:
#     - {tool: WebFetch, class: net, hosts: [x.example], origins: [repository, tool]}
#     - {tool: Read, class: read, reads: [/src/a], origins: [mcp]}
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
