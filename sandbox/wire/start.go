package wire

// What the daemon gives a launcher when it starts it.
const (
	// Arg0 is argv[0]. By it the daemon's own binary knows that it was started as the
	// launcher.
	Arg0 = "sandboxd-child"
	// Flag is the one argument of the launcher. A binary that does not call child.Main,
	// such as the tests of another package, ends at a flag that it does not know. Without
	// it that binary would do its own work once more, and make a cage again.
	Flag = "-launcher"

	// SocketFD is the descriptor of the launcher's end of the control socket.
	SocketFD = 3

	// RootEnv names the environment variable with the directory that a root is built
	// on. All sessions have the same: each mounts there in its own namespace. It is
	// absent on a host without namespaces.
	RootEnv = "SANDBOXD_ROOT"

	// GroupsEnv names the environment variable that says which control groups the
	// launcher has from descriptor 4 on: "v2" for one directory, "v1" for those of
	// memory and of pids. The launcher makes a group below for each call that runs at
	// the same time, and uses it again: a group that is removed with pages still
	// charged would stay in the kernel.
	GroupsEnv = "SANDBOXD_GROUPS"

	// Nice is how much less the priority of programs is than the daemon's, so that it still answers when they want
	// all processors: at 10, a thread of the daemon gets nine times as much as one of theirs.
	Nice = 10

	// InFile is the body of a message that travels as a file.
	InFile = "{}"

	// MaxMessage is the size of a receiver's buffer, in bytes. The daemon sends more than 48 KiB as a file; a longer
	// answer of the launcher is an error.
	MaxMessage = 64 << 10
)
