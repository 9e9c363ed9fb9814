// Package identity gives one thread the rights of another user to files, and describes users for
// programs that run with their rights.
//
//	id := identity.ID{UID: 1001, GID: 1001, Groups: []int{100}}
//	err := id.Do(func() error { return os.WriteFile("/home/ann/new", text, 0o644) })
//
// While Do runs f, the kernel judges access to files by the uid, the gid and the groups of the
// ID, and what f makes belongs to it. So there is no check before the access that could be out
// of date. f must not start goroutines that need these rights. The process needs CAP_SETUID and
// CAP_SETGID; [Takes] says whether it has them. [HasUID] and [HasGID] say whether its user
// namespace has an id.
//
// Do is not for starting programs: execve gives a program the uid and gid of this process again.
// Whoever starts one for an ID sets its credentials from the fields. Whoever starts a process in a
// new user namespace does it inside of [Unchanged].
//
// Guaranteed: f has these rights to files and none of the capabilities that setfsuid of the kernel
// drops for another user, or it is not run and the error is [ErrNotTaken]. Otherwise the error of f
// is that of Do. Afterwards the thread has its own rights again. If it cannot get them back, the
// error is also [ErrNotGivenBack], and the goroutine has the thread for itself: the caller must end
// that goroutine. All functions are safe for concurrent use,
// but [SetGroups] changes the thread for good: see there.
//
// The process keeps its other rights, such as CAP_SYS_ADMIN and CAP_KILL.
// Not here: who may ask for which rights. A new capability of the kernel that opens files belongs in
// forFiles (identity_linux.go).
package identity
