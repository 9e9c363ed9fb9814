# METADATA
# title: The observe profile
# description: >-
#   Allows everything that the settings and the core rules allow, and records what
#   the developer profile would have said.
package sandboxd.policies.observe.observe

findings contains {
	"id": "observe.all",
	"effect": "allow",
	"message": "the observe profile allows every call",
}

findings contains {
	"id": concat("", ["observe.would_", finding.effect]),
	"effect": "allow",
	"message": sprintf("%s would %s: %s", [finding.id, finding.effect, finding.message]),
	"subject": object.get(finding, "subject", ""),
} if {
	some finding in data.sandboxd.policies.developer[_].findings
}
