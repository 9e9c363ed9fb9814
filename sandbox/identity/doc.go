// Package identity takes the rights of another user, for one thread or for a program.
//
//	id := identity.ID{UID: 1001, GID: 1001, Groups: []int{100}}
//	err := id.Do(func() error { return os.WriteFile("/home/ann/new", text, 0o644) })
//
// Do is for files: the kernel judges what f does by the uid, the gid and the groups of the
// ID, and what f makes belongs to it. Nothing is looked up and compared before. Whoever
// starts a program for an ID uses the fields.
//
// Guaranteed: f runs with exactly these rights, or it is not run; afterwards the thread has
// its own again, or it ends. Not here: who may ask for which rights.
package identity
