// Package catalog knows which tools there are and which a session has.
//
// A [Registry] holds groups of tools with their rules for the model, and the permissions that the
// configuration gives tools. It checks arguments against the schemas of the tools.
//
//	r := catalog.NewRegistry()
//	r.Restrict(allowed, denied) // first: tools that are registered already stay
//	r.Register(catalog.Group{Name: "files", Tools: []tool.Tool{read, write}})
//	r.SetDefaults(catalog.Defaults{AllGroups: true}) // else all groups are off
//	t, err := r.Lookup(session, "Read") // tool_not_found, tool_disabled or skill_restricted
//	err = r.Validate(t.Spec(), args)
//
// [Registry.Listed] returns the tools that a model is told of, [Registry.Prompt] the text about
// them, and [Definitions] their definitions in the form of an API. [Registry.Enabled] also has the
// tools that are deferred: they can be called, but a model learns of them only by a search.
// [Registry.ToggleGroup] and [Registry.SetTool] return overrides and change nothing: the caller
// stores them in the session.
//
// The tools that a session has alone ([Group].Of) are restricted whenever they are asked for. The
// permissions of [Registry.SetPermissions] are in the answer of [Registry.Spec], not in Spec of the
// tool. A Registry is safe for concurrent use.
//
// The package does not judge what a call would touch, and it runs nothing.
package catalog
