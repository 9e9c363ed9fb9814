// Package ask asks a daemon what calls changed, and has it undone: the programs behind sandboxd
// undo, changes, diff and history.
//
//	u := ask.Undo{Daemon: client.New(agentSocket)}
//	ids, err := u.Undoable(ctx, session, 1) // the last call that changed something and is not undone
//	left, err := u.All(ctx, ids, func(a ask.Answer) error { u.Print(os.Stdout, a); return nil })
//
// [OfSession] and [OfPath] list the calls that changed files, the newest 100 at most, and
// [PrintChanges] writes them as a table; [Diff] returns the lines that one call changed. OfPath
// takes a path of [Physical].
//
// An error of the [Daemon] is returned as it is. All ends with the first error; where the daemon
// answered that the undo failed, that is the Error of the [Answer], a [tool.Error]. If nothing is left
// to undo, Undoable returns a [tool.Error] without a code. Files that an undo left as they are
// are no error: package conflict names the reasons, from which [Undo.Print] tells what would help.
//
// It decides nothing: the daemon judges each undo. An undo is a call, which can be undone by its id.
// Undo.Print writes, and Diff returns, paths and text as the daemon gives them, with bytes that may
// steer a terminal: write to one through package visible.
package ask
