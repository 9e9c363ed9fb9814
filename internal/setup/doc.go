// Package setup installs a deployment of sandboxd on a host, and uninstalls it.
//
// [System] plans a daemon with a user of its own, which serves several accounts. [Person] plans the
// daemon of one person. A plan is a list of steps. Each step makes one thing: see [Kind].
//
//	host := setup.Host{Program: "/usr/bin/sandboxd", Run: run, Systemd: true} // run starts a program
//	plan, err := setup.System(host, setup.Options{Accounts: []string{"ann"}, Workspaces: dirs})
//	err = plan.Do(ctx, setup.Show{Out: os.Stdout})
//	err = plan.Undo(ctx, setup.Show{Out: os.Stdout}) // later, of the same plan
//
// An error of System or Person is about the options or the host; nothing was made.
//
// Do prints each step, and returns an error before it does anything if something is there that it
// cannot use: another type of file, or a directory of another user. If something is to be made, it
// asks [Show].Confirm if that is set, and then runs the steps in order. If the answer is no, the
// error is [ErrDeclined]; with DryRun it only prints. It skips the rest of what exists, and prints if
// content, mode or group differs. It stops at an error; run it again to continue.
//
// The manifest is a file that lists what was made. A step is written into it before it is done.
// Undo asks likewise, and removes what the manifest lists, the newest first. So it also undoes a
// setup that was interrupted. What it leaves, it prints with the reason. Where systemd does not
// run, Do starts no unit, and Undo disables none.
//
// Guaranteed: Do does not change users, groups, directories and files that exist when the plan is
// shown, save a directory that an interrupted setup had begun, and files with the name of one of
// its own and .setup or .new at the end. But users become members of groups, and units that exist
// are enabled and started. Undo removes a directory only if it is empty. It removes a file only if
// its content is as setup makes it. Parent directories that a step had to make stay, except the
// directory of the manifest.
//
// Run one setup at a time: there is no lock, and two would overwrite each other's manifest. A plan of
// System makes users and gives files to them, so it needs root.
//
// A new step of a plan is a line in [System] or [Person]. A new kind of step needs a [Kind], a
// function that adds the step, and a case in undo.go. Steps are tested here below a Host.Root;
// tests/operate installs with real users and systemd (make test-operate).
package setup
