// Package view decides what programs in the sandbox see of the host: which files are shown,
// hidden or read-only, which sockets are masked, and what the environment holds.
//
// The sandbox has its own /tmp, /var/tmp, /home, /root and /run, and shows in them only
// what the settings name. Mounts, file tools and the masking of sockets and FIFOs all ask
// the same [View], so that all of them see the same files.
//
//	v := view.New(options, settings, rules, sessionDir, os.Environ())
//	if v.Hidden("/home/other/x") != "" { … }        // a file tool refuses
//	t, err := v.Template(base, "", protected)       // what a launcher builds
//
// Guaranteed: a template shows no file that [guard.Rules.Check] refuses to read, and makes no file
// writable that it refuses to write. Without namespaces it may be narrower than the
// settings; [View.Narrowed] says where. Not here: the mounts themselves, which package
// child makes, and what git or an editor runs later (package later).
package view
