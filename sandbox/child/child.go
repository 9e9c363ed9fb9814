// Package child is what runs between the daemon and a confined program: a small
// launcher process, one for each session, profile and set of rules.
//
// The daemon starts the launcher in new namespaces and gives it one end of a
// SEQPACKET socket as descriptor 3. The launcher builds a root directory from a
// [Template], moves into it, and then clones init processes into fresh namespaces,
// each with a process below it, in a second clone without any memory copied, that
// confines itself and waits. The daemon is given the [Door] of each; through it goes
// the [Script] of a call. Both what confines and the script are flat lists of system
// calls ([Op]), the last of which is execve. The lists are data: they can be printed
// and tested, and an error names the operation that failed. The end of a call is
// told by its init process, or by the launcher where it knows more ([Reply]).
//
//	if child.IsChild() {
//		child.Main() // never returns
//	}
//
// Guaranteed: the program runs without capabilities, with no_new_privs, under
// Landlock and the seccomp filter, or it does not run. When it ends, everything
// it started ends. What is to be hidden is hidden from every call whose door was
// asked for after it came to be ([Request]). Not here: which paths are allowed. The
// template says so.
//
// This package imports the standard library and x/sys/unix only, so that the
// launcher stays small and starts fast.
package child

import "os"

// Arg0 is the argv[0] by which the daemon's own binary knows that it was started
// as the launcher.
const Arg0 = "sandboxd-child"

// IsChild reports whether this process was started as the launcher.
func IsChild() bool { return len(os.Args) > 0 && os.Args[0] == Arg0 }
