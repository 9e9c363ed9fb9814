// Package view decides what programs in the sandbox see of the host: which files are shown,
// hidden or read-only, which sockets are masked, and what the environment holds.
//
// The sandbox has its own /tmp, /var/tmp, /home, /root and /run, and shows in them only
// what the settings name, the workspaces, and the home if allowedReadPaths is empty. Mounts,
// file tools and the masking of sockets and FIFOs all ask the same [View], so that all of them
// see the same files.
//
//	options := view.Options{Home: "/home/dev", Roots: []string{"/work"}}
//	v := view.New(options, settings, guard.NewRules(settings), sessionDir, os.Environ())
//	if v.Hidden("/home/other/x") != "" { … }        // a file tool refuses
//	t, err := v.Template(base, "", nil) // for a launcher; base has Profile, Scratch and filters
//	sockets := view.NewSockets()                    // one for all views; Close ends it
//	masks := v.Masks(sockets, "")                   // before each call: sockets come and go
//
// The settings are normalised. Env of the View is the environment, Shown the paths at their own
// place. [View.Own], [View.Writable] and [View.OnHost] say where a session keeps files on the host.
//
// Guaranteed: a template shows no file that [guard.Rules.Check] refuses to read, except
// [wire.SystemPaths], and makes no file writable that it refuses to write. Without namespaces it
// may be narrower than the settings; [View.Narrowed] says where nothing new can be made.
//
// Not guaranteed: a mask over each socket. Its file is looked for where it was bound, and among
// 200,000 files of each workspace.
//
// View and Sockets are safe for concurrent use. Only Template and [MakeOver] return errors: if they cannot make a
// directory, or if a tree below /tmp is too large to look for FIFOs. No launcher may be started then.
//
// Not here: the mounts themselves, which package child makes, and what git or an editor runs
// later (package later).
//
// Where things go: a variable that programs need belongs in env_linux.go, and a rule for the level without
// namespaces in grants_linux.go. A directory that each session has of its own belongs in privatePlaces (view_linux.go)
// and in the other lists that name vartmp, here and in packages sandbox and child. Tests are in env_linux_test.go and
// shown_linux_test.go.
package view
