# METADATA
# title: Provenance
# description: >-
#   Denies what outsiders wrote: a permission rule that allows the command did not
#   foresee its author. What outsiders were only heard to say asks, as in developer.
package sandboxd.policies.strict.provenance

import data.sandboxd.provenance

# METADATA
# title: Written outside
# description: >-
#   An argument holds text of a web page or an MCP server, by reference or as a
#   copy, and the call runs a program, writes outside the workspace or what others run
#   by themselves, or reaches the network.
findings contains {
	"id": "strict.provenance.quoted",
	"effect": "deny",
	"message": act.message,
	"hint": "write it in your own words, or ask an operator to run it",
	"subject": act.subject,
} if {
	some author in input.authors
	author in provenance.outsiders
	some act in provenance.by_quote
}
