// Package idspace runs the daemon in a user namespace that has the ids of its accounts, and no
// others.
//
// A daemon that takes the rights of its callers needs the capabilities to become other users.
// With those it could become root. So a daemon that is started with them, and is not root,
// goes into a namespace in which only its own ids and those of its accounts exist:
//
//	inside, err := idspace.Enter() // not nil: this is the inner process
//	if inside == nil && idspace.Wanted() {
//		return idspace.Run(ids) // this program again, inside; returns when that has ended for good
//	}
//	peer, err := inside.PeerOf(fd) // asks the outer process; without one, call idspace.PeerOf
//
// There are two processes then. The outer one keeps the capabilities, reads nothing that a
// caller wrote, and does three things: it waits for the inner one, hands signals on, and
// answers one question: which process is at the other end of a connection. The inner one
// cannot answer that by itself, because it has no numbers for most users. If [Inside.Lacks] names
// ids that a new configuration needs, the inner one ends with [Again]. The outer one then calls ids
// again, and starts the next inner process, unless a signal has asked for the end.
//
// Wanted says nothing once Enter has returned an [Inside]: Enter removes what it looks at.
//
// Guaranteed: the inner process has only its own ids and those of accounts, never root's, can
// get no others, and ends with the outer one. After Enter, programs that it starts inherit no
// capability; where that cannot be had, in a build with cgo, Enter is an error.
package idspace
