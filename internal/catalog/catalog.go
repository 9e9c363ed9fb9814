// Package catalog knows which tools there are and which a session has.
//
// A [Registry] holds groups of tools with their rules for the model, and the permissions that the
// configuration gives tools. It checks arguments against the schemas of the tools.
//
//	r := catalog.NewRegistry()
//	r.Restrict(allowed, denied) // first: tools that are registered already stay
//	r.Register(files)
//	r.SetDefaults(catalog.Defaults{AllGroups: true}) // else all groups are off
//	t, err := r.Lookup(session, "Read")
//	err = r.Validate(t.Spec(), args)
//
// The tools that a session has alone ([Group].Of) are restricted whenever they are asked for. The
// permissions of the configuration are in the answer of [Registry.Spec].
//
// The package does not judge what a call would touch, and it runs nothing.
package catalog
