// Package runner runs one program with the streams of this process. It is the tool behind "sandboxd
// exec".
//
//	p := runner.New(os.Stdin, os.Stdout, os.Stderr)
//	uses, err := p.Uses(ctx, tool.In{Args: args, Dir: dir}) // what the program would touch
//	out, err := p.Run(ctx, in, box)                         // by the request path, in a cage
//
// A [Program] is a tool: the request path judges it like any other and gives it a cage. It runs one
// program. Its words are literal: no shell reads them. [Program.Leased] runs a call that the daemon
// has judged, in a cage with the settings that the daemon names.
//
// A terminal is handed to the program as it is. Output to a pipe or a file passes through this
// process, so that its limit holds. After New, SIGPIPE no longer ends this process: a write to a
// reader that has gone is an error.
//
// [NewTerminal] gives the program a new terminal instead. Keys go there. What the program draws is
// filtered, so that it cannot make the terminal of this process do anything but draw.
//
// Run returns when the program has ended. Then Ended says how, or NotStarted why it could not be
// started, or neither after an error of this process.
// After a run on a new terminal the person's terminal has its modes again, but what is
// typed there is read until this process ends: read nothing from it afterwards.
//
// The package does not decide whether the program may run, and never runs it outside of a cage: Run
// uses the one that it is given, Leased makes one.
//
// Another way to connect streams is a case in Program.start (program.go), with a file as terminal.go.
// [RaiseWallLimit] raises a limit that has its default, before a call is judged. [RaiseOutputLimit] does so too,
// and Leased calls it again for the settings of the daemon. What needs a cage is tested in tests/integration.
package runner
