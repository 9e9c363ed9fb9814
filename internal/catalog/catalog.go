// Package catalog knows which tools there are and which a session has.
//
// A [Registry] holds groups of tools with their rules for the model, the permissions
// that the configuration gives tools, and the check of arguments against schemas.
//
//	r := catalog.NewRegistry(files, shell)
//	r.SetDefaults(catalog.Defaults{AllGroups: true})
//	t, err := r.Lookup(session, "Read")
//	err = r.Validate(t.Spec(), args)
//
// It does not judge what a call would touch, and it runs nothing.
package catalog
