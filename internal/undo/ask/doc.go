// Package ask asks a daemon what calls changed, and has it undone: the programs behind sandboxd
// undo, changes, diff and history.
//
//	u := ask.Undo{Daemon: client.New(agentSocket)}
//	ids, err := u.Undoable(ctx, session, 1) // the last call that changed something
//	left, err := u.All(ctx, ids, func(a ask.Answer) error { a.Print(os.Stdout, ""); return nil })
//
// It decides nothing: the daemon judges each undo, and says which files it left as they are. What
// changed is printed as the daemon says it, so give a writer of package visible.
package ask
