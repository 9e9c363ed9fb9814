# METADATA
# title: Masks
# description: >-
#   What is not written into the record of decisions, as JSON pointers into the
#   input. An operator's files may add to this package. No verdict looks at it.
package sandboxd.audit.mask

# Arguments whose name says that they are a secret.
mask contains concat("/", ["", "params", escaped]) if {
	some name, _ in input.params
	regex.match(`(?i)(passw|secret|token|api_?key|credential|authorization|cookie|private_?key)`, name)
	escaped := replace(replace(name, "~", "~0"), "/", "~1")
}
