// Package rego embeds the policy library: the Rego rules that come with the daemon, their tests,
// the schemas of the documents, and the list of built-in functions that rules may call.
//
//	lib/               helper functions, packages sandboxd.lib and sandboxd.provenance
//	core/              rules that hold in every profile
//	developer/         the default profile: asks about what destroys or publishes
//	observe/           allows everything and says what developer would have done
//	strict/            denies what no rule allows
//	audit/             what the record of decisions does not hold
//	schemas/           JSON Schema of input and finding
//	capabilities.json  the built-in functions that rules may call
//
// To add a rule, add a file x.rego to core or to a profile, with its x_test.rego beside it. No list
// names it. The other profiles load the rules of developer, too.
//
// This package judges nothing: package policy compiles and evaluates the files.
package rego

import "embed"

// Files is the library.
//
//go:embed capabilities.json lib audit core developer observe strict schemas
var Files embed.FS
