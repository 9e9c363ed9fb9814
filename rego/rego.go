// Package rego embeds the policy library: the Rego that every decision runs, its
// tests, the schemas of the documents, and the built-in functions that rules may
// call.
//
//	lib/               helper functions, package sandboxd.lib
//	core/              rules that hold in every profile
//	developer/         the default profile: asks about what destroys or publishes
//	observe/           allows everything and says what developer would have done
//	strict/            denies what no rule allows
//	audit/             what the record of decisions does not hold
//	schemas/           JSON Schema of input and finding
//	capabilities.json  the built-in functions that rules may call
//
// A file x.rego in core or in a profile is loaded because it is there. It judges
// nothing by itself: package policy compiles and evaluates it.
package rego

import "embed"

// Files is the library.
//
//go:embed capabilities.json lib audit core developer observe strict schemas
var Files embed.FS
