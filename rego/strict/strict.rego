# METADATA
# title: The strict profile
# description: >-
#   An allow list: read-only tools and what a permission rule of the operator
#   allows pass; everything else is denied, in every mode.
package sandboxd.policies.strict.strict

findings contains {
	"id": "strict.not_allowed",
	"effect": "deny",
	"message": sprintf("no rule allows this call of %s", [input.tool.name]),
	"hint": "an operator can add a permission rule that allows it",
} if {
	not input.tool.read_only
	not allowed_by_rule
}

allowed_by_rule if {
	some finding in data.sandboxd.policies.core.rules.findings
	finding.effect == "allow"
}
