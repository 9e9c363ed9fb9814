// Package child is the launcher: the process between the daemon and confined programs. The
// daemon starts one for each session, profile and set of rules. This is how a binary becomes it,
// as the first act of its main:
//
//	if child.IsChild() {
//		child.Main() // never returns
//	}
//
// Package launch starts the binary under a name by which IsChild knows it, with [Flag] as its only
// argument, and with a socket. Without the socket, Main ends with an error. With the flag of package
// reaper, Main runs a program of the operator's instead.
//
// The launcher builds a root directory from the template that the daemon sends, and moves
// into it. Then it makes processes, also ahead of their calls. For each it clones an init
// process into new PID, mount and IPC namespaces (profile light: PID alone). That one clones a
// second process, which confines itself and waits behind a slot. Both clones copy no memory.
// What the processes run are flat lists of system calls (package script): they can be printed
// and tested, and an error names the operation that failed. The protocol is in package wire.
//
// On a host without namespaces, nothing is built or mounted. Landlock grants paths one by one
// and keeps signals in, for which it has to be version 6 (Linux 6.12).
//
// Guaranteed: a program runs without capabilities, with no_new_privs, under the seccomp filter,
// and under Landlock where the kernel has it, or it does not run. When it ends, everything that
// it started ends. A path that must be hidden is hidden from every call whose slot was requested
// after the path appeared.
//
// Not guaranteed: without namespaces, processes may stay if somebody kills the init process of
// their call. Not here: which paths are allowed. The template says so.
//
// A step of the root belongs in template_linux.go, a step that confines a process in
// call_linux.go. This package imports the standard library, x/sys/unix and a few packages of this
// folder only, so that the launcher stays small and starts fast.
package child

import (
	"os"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// Flag is the one argument of the launcher. It protects a binary that does not call [Main], such
// as the tests of another package: that binary ends, because it does not know the flag. Without
// the flag it would do its own work again, and start another launcher.
const Flag = "-launcher"

// IsChild reports whether this process was started as the launcher.
func IsChild() bool { return len(os.Args) > 0 && os.Args[0] == wire.Arg0 }
