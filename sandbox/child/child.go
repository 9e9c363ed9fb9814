// Package child is the launcher: the process between the daemon and confined programs. The
// daemon starts one for each session, profile and set of rules.
//
// The launcher builds a root directory from the template that the daemon sends, and moves
// into it. Then it makes processes ahead of their calls. For each it clones an init process
// into fresh namespaces, and that one clones a second process, which confines itself and
// waits behind a slot. Both clones copy no memory. What the processes run are flat lists of
// system calls (package script): they can be printed and tested, and an error names the
// operation that failed. The protocol is in package wire.
//
//	if child.IsChild() {
//		child.Main() // never returns
//	}
//
// Guaranteed: a program runs without capabilities, with no_new_privs, under the seccomp filter,
// and under Landlock where the kernel has it, or it does not run. The report of a call says
// which layers it had. When it ends, everything that it started ends. A
// path that must be hidden is hidden from every call whose slot was requested after the path
// appeared. Not here: which paths are allowed. The template says so.
//
// The same program, with another flag, is the reaper of a program of the operator's (package reaper).
//
// This package imports the standard library, x/sys/unix and a few packages of this folder
// only, so that the launcher stays small and starts fast.
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
