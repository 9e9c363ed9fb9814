// Package daemon is what the program sandboxd does. It reads the configuration, builds the request
// path (policies, questions, hooks, sandbox, variables, record) with the features, and serves it.
// It also holds what the commands do without a daemon.
//
// [Serve] runs the daemon until its context ends, an operator stops all, or a part of it fails: two
// Unix sockets, TCP where metrics.listen, web.listen or mcp.listen is set, reloads, notices to the
// service manager. It reads the configuration itself.
//
//	err := daemon.Serve(ctx, "v1", nil, os.Stderr)
//
// Serve may start this program again, with the same words, in a user namespace. So its error may be an
// [idspace.Ended]: exit with that status, on both sides. Errors that a person can mend are a *tool.Error
// with a code and a hint, such as state_in_use.
//
// [Load] reads the configuration into a [Site], which answers without a daemon; [CheckFile] also
// loads the policies. Offline judges calls and runs nothing; close it. Doctor and Idle say what is
// missing on the host and what has no effect; Projects, ProjectOf, StoreStatus and Recorded look.
// PolicyOptions, ReplayOptions, AuditOptions and Backend prepare what other packages open.
// ChangeProjects, AcceptRecord, StoreMigrate and StoreCopy change what daemons use. They refuse
// while a daemon uses the state directory that they change, and StoreCopy also while one uses
// PostgreSQL. [Standalone] runs one command through the same request path, and [OpenExecStore] is
// for undoing what it changed.
//
// Guaranteed: a reload with a configuration that cannot be used leaves the old one in force, and
// Serve does not start with one. When Serve returns, nothing that it started runs.
//
// The package decides nothing about calls; that is package pipeline. A new feature is one element
// of the list in parts.go.
package daemon
