// Package setup makes what a deployment of sandboxd needs on a host, and removes it again.
//
// A plan is a list of steps, each of which makes one thing: a user, a group, a member of a group, a
// directory, a file, or units that are started. A step is shown before it is done. What is there
// already is left as it is, and said.
//
//	plan, err := setup.System(host, setup.Options{Accounts: []string{"ann"}, Workspaces: []string{"/srv/a"}})
//	err = plan.Do(ctx, setup.Show{Out: os.Stdout})
//	err = plan.Undo(ctx, setup.Show{Out: os.Stdout})
//
// The manifest lists what was made. A step is written into it before it is done, so that a setup
// that was interrupted goes on where it was, and is undone as far as it came.
//
// Guaranteed: nothing that was there before is changed or removed, except that users become
// members of groups and leave them again. Undo removes a file only if it is as it was made, and
// a directory only if it is empty; it says what it leaves.
package setup
