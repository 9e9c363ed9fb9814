package sandboxd.policies.core.rules

findings contains f if {
	some f in data.sandboxd.rules.none
}
