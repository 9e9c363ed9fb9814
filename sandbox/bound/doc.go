// Package bound is about files with approved content. A person approves a call together with the
// content of the files that it executes or obeys; the call gets that content, whatever lies at
// their paths later. The package holds what the daemon, the filter and the launcher must agree on
// for this: the system calls to ask about, the limits, and how a script names its interpreter.
//
// [Interpreter] reads the first line of a script as the kernel does:
//
//	path, arg := bound.Interpreter([]byte("#!/usr/bin/env bash\n"))
//	// "/usr/bin/env", "bash"
//
// A mount over the path would not do: the kernel takes a mount away when somebody replaces the file
// below it from another mount namespace. So a launcher is asked about each of [Calls] by the
// programs of such a call; the filter knows them by [Numbers]. The launcher gives a sealed copy to
// whoever opens one of the names, refuses to let one be changed, and looks at what a program has
// become before its first instruction if it executes one, and at where a process is if it has
// entered a directory above one. Package child does that.
//
// Guaranteed: every call of the kernel that opens, executes or replaces a file by a path,
// and that the filter allows, is in Calls. Not here: which files are bound, and who
// approved them.
package bound
