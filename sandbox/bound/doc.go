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
// below it from another mount namespace. So when a program of such a call makes one of [Calls], the
// filter asks the launcher; it knows them by [Numbers]. Package child answers. Who opens one of the
// names gets a sealed copy. A change of one is refused. If a program executes one, the launcher looks
// at what it has become before its first instruction. If a process enters a directory above one, the
// launcher looks at where the process is then.
//
// Guaranteed: every call of the kernel that opens, executes, replaces or makes a file by a path, and
// that the filter allows, is in Calls; only bind is not, which makes nothing but a socket. If the filter
// allows a new one, add it to calls_linux.go, or to calls_linux_amd64.go if arm64 lacks it.
//
// Numbers and Interpreter are safe for concurrent use and have no errors; nobody changes Calls. A new first line
// of a script is a row of TestInterpreterAsTheKernel, which asks the kernel.
//
// Not here: which files are bound, who approved them, and the check of the limits (package pipeline).
// Package sandbox makes the Content of a [File], and whoever asked it for that closes it.
package bound
