// Package runner runs one program with the streams of this process.
//
// Program is the tool behind "sandboxd exec". Its words are literal: no shell reads
// them. The request path judges it like any other tool and gives it a cage. A
// terminal is handed to the program as it is; output that does not go to a terminal
// passes through this process, so that its limit holds.
//
// [NewTerminal] gives the program a new terminal instead: keys go there, and what it draws is
// shown without anything that makes the terminal of this process do more.
//
//	p := runner.New(os.Stdin, os.Stdout, os.Stderr)
//	uses, err := p.Uses(ctx, tool.In{Args: args, Dir: dir})
//
// Leased runs a call that the daemon judged, in a cage with the settings that the
// daemon names.
//
// It does not decide whether the program may run, and it never runs one outside of
// the cage that it was given.
package runner
