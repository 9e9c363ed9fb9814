// Package launch starts the launchers of sessions and hands calls to them: the daemon's
// side of the protocol in package wire.
//
// A [Launcher] is one process that has built the root directory of a session. It keeps
// processes ready that are confined and wait behind slots. A call takes a slot and sends a
// script through it; the channel in the slot says how the call ended.
//
//	o := launch.Options{Child: "/usr/lib/sandboxd/sandboxd-child", Root: dir}
//	pool := launch.NewPool(func() (*launch.Launcher, error) { return launch.Start(o) })
//	entry := launch.Entry{Limits: limits}                        // what the call needs of its slot
//	config := launch.Config{Template: template, Key: key}        // package view makes the template
//	l, err := pool.Get(ctx, session, config, entry)
//	defer l.Release()
//	slot, err := l.Enter(ctx, entry)
//	s := script.Compile(slot.Slot, call)
//	err = l.Begin(slot, s, []*os.File{stdin, stdout, stderr})
//	reply, ok := <-slot.End // not ok: the launcher ended, and the call with it
//	pool.Forget(session)    // ends its launchers; pool.Close ends all
//
// Each slot of Enter must go to Begin, once, because Begin closes its descriptor. EPIPE from Begin
// means that the process behind the slot was killed while it waited: nothing ran, and Enter gives
// another slot. After an error of Begin, nobody may wait for End.
//
// After an error of Get, Enter or Begin no program of the call runs, and the caller denies the call. [ErrGone] from
// Get or Enter means that the launcher ended meanwhile; the next Get starts another one. If ctx ends first, errors.Is
// finds its cause. Call Release after each Get that succeeded, also when Enter fails.
//
// [Launcher.Signal] and [Launcher.Kill] are for a call that runs. [Launcher.Dial] connects to a port of
// the loopback that the calls of a launcher share. [Launcher.Serve] readies a launcher of no pool,
// [Launcher.Close] ends it.
//
// A slot is valid as long as no path has appeared that must be hidden from the call, or kept.
// [Launcher.Enter] checks that before each call, and has the launcher cover what is new.
//
// A [Pool] has the launchers of all sessions. If it starts one and there are more than [Pool.Max],
// it ends those that are idle, the longest idle first, and never one between Get and Release. It
// ends each that has been idle for [IdleTime]. From the second session on, it tries to keep one
// started for the next.
//
// A launcher that somebody has stopped answers nothing. It is ended when a call in it must end, or
// when one has waited for a process until its time was over.
//
// Guaranteed: when a launcher ends, for whatever reason, every call in it that was begun ends, and
// its End is closed, after the processes are gone. Launcher and Pool are safe for concurrent use;
// Max must be set before the first Get. Not here: what a script does (package script), and the
// launcher's own side (package child).
//
// A new message of the protocol belongs in package wire, with a row on the page of its doc, and is sent
// and answered here and in package child. What a call needs of its slot is a field of [Entry]. Tests start real
// launchers with newPool (launch_linux_test.go), which skips where the kernel gives no namespaces.
package launch
