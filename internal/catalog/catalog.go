// Package catalog knows which tools there are and which a session has.
//
// A [Registry] holds groups of tools with the documents (rules) that a model may read, and the permissions that the
// configuration gives tools. It checks arguments against the schemas of the tools.
//
//	r := catalog.NewRegistry()
//	r.Restrict(allowed, denied) // first: tools that are registered already stay
//	r.Register(catalog.Group{Name: "files", Tools: []tool.Tool{read, write}})
//	r.SetDefaults(catalog.Defaults{AllGroups: true}) // else all groups are off
//	t, err := r.Lookup(session, "Read") // tool_not_found, tool_disabled or skill_restricted
//	err = r.Validate(t.Spec(), args) // invalid_arguments; invalid_schema if the schema is wrong
//
// [Registry.Listed] returns the tools whose definitions a model gets, and [Definitions] those in the
// form of an API. [Registry.Enabled] also has the tools that [Registry.SetDeferred] names: they can
// be called, and a model gets their definitions by a search. [Registry.Prompt] returns the general
// rules, and for each group its rules and the names of its tools, also of deferred ones.
// [Registry.Inject] gives tools to each session that has any other.
// [Registry.ToggleGroup] and [Registry.SetTool] return overrides and change nothing: the caller
// stores them in the session.
//
// The tools that a session has alone ([Group].Of) are restricted whenever they are asked for. The
// permissions of [Registry.SetPermissions] are in the answer of [Registry.Spec], not in Spec of the
// tool. A Registry is safe for concurrent use.
//
// An error of Lookup or Validate is a *tool.Error for the model, and the call must not run. The package does
// not judge what a call would touch, and it runs nothing.
//
// A new tool is not named here: it is in a group that package tools, or a part, registers. A new form of
// definitions is a case of [Definitions]; a keyword of schemas gets its words for the model in explain.go.
package catalog
