// Package ask asks a daemon what calls changed, and has it undone: the programs behind sandboxd
// undo, changes, diff and history.
//
//	u := ask.Undo{Daemon: client.New(agentSocket)}
//	ids, err := u.Undoable(ctx, session, 1) // the last call that changed something and is not undone
//	left, err := u.All(ctx, ids, func(a ask.Answer) error { a.Print(os.Stdout, ""); return nil })
//
// [OfSession] and [OfPath] list the calls that changed files, the newest 100 at most, and
// [PrintChanges] writes them as a table; [Diff] returns the lines that one call changed. OfPath
// takes a path of [Physical].
//
// It decides nothing: the daemon judges each undo, and says which files it left as they are. An
// undo is a call, which can be undone by its id. What Answer.Print and Diff give is as the daemon
// says it, so use a writer of package visible.
package ask
