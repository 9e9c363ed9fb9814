// Package seccomp makes the system call filters that programs in the sandbox run under.
//
// The rules are a table: each refuses one system call, always or for some arguments.
// Everything else is allowed. A filter refuses with an errno and never kills; calls of
// another architecture do not exist in it (ENOSYS).
//
//	filters := seccomp.New()
//	plain, listen := filters.For(noNamespaces)
//
// Guaranteed: plain and listen refuse the same calls. listen asks a listener instead of
// refusing by itself, so that the act can be reported, and also asks about connect.
// testdata holds what the filter does with every call number. Not here: installing a
// filter and answering the listener; package child does that.
package seccomp
