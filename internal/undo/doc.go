// Package undo keeps what calls change in files, and puts it back.
//
//	p, err := undo.Definition().Open(ctx, host)
//	ctx, err = p.Journal.Keep(ctx, c)  // before a call; what it changes under this ctx is kept
//	err = p.Journal.Collect(ctx, c)    // after it: c.Changes says what changed, and what is kept
//	err = p.Close()
//
// It is a part of the daemon, and the journal of the request path. Keep puts a [sandbox.Keeper] into
// the context of a call. File tools tell it of each change before they make the change: it copies the
// old content to a store in the state directory, which no program in a sandbox sees, and writes a
// line into the journal. A change that cannot be kept is refused (undo_call_too_large,
// undo_store_full). Collect puts the changes into the answer of the call. With undo.mode off,
// nothing is kept.
//
// Changes of commands are found by comparing trees before and after a call: the workspace, the
// directories beside it that the call may write, and sandbox.allowedWritePaths. Content that the store
// does not have is copied before the call, where the call may write it and there is room; if the
// store has no room for the journal, the command does not begin. Watches on directories say where to
// look; where they cannot say, everything is looked at. In doubt a name counts as changed, with the
// exceptions in docs/undo.md. What others change during the call counts as the command's. Paths that
// undo.exclude names are left out. If a tree is too large or cannot be read, the command runs, and the
// answer says that not everything is kept.
//
// An undo that somebody asks for, also by POST /calls/{id}/undo, is a call of the tool Undo:
// it is judged, recorded, kept and can be undone as any other. It restores only what the call
// changed, and only where that is as the call left it (an index of git: with the same entries). What
// somebody changed since, or has open for writing, is a conflict: it stays as it is, and the answer
// says so. Only an operator may force it. If changes of a call are refused after it ran, the request
// path undoes them itself (made.go); that is kept, unless undo.mode is off, and can be undone; it is
// not judged.
//
// Guaranteed: if the answer of a call says kept, each change that the journal has of it can be put
// back: content, rights (without set-user-id, set-group-id and sticky), the time of files, the
// attributes of users and lists of access rights (acl(5)). This holds until undo.keepDays is over,
// the store needs the room (never within 24 hours of the call), or an operator purges it. A daemon
// that is killed finds the tree as it was before a change of a file tool or after it, and ends an
// undo that had begun. docs/undo.md lists what is not kept.
//
// After an error of Keep the call must not run; after one of Collect it counts as failed. Calls may be
// kept at the same time. An undo that cannot begin is an error, such as undo_not_kept, undo_running,
// undo_nothing or undo_force_denied.
//
// Where: journal.go, objects.go and running.go keep; keep.go hears of file tools, and command.go,
// looking.go, find.go, snapshot.go and watch.go find what commands changed; restore.go, dir.go and
// made.go put back; recover.go comes after a kill; package ask is the client's side, and package conflict
// the reasons of conflicts. What else of a file is kept belongs in state.go, in both directions. Tests
// have a journal and a directory by openWorld (world_test.go).
package undo
