// The command sandboxd-child is the launcher of sandboxed programs. With the flag of package reaper
// it is the reaper of the operator's own programs, such as hooks. sandboxd starts it, with a socket to
// the daemon as a descriptor: package wire has the messages to the launcher, reaper those to a reaper.
// If a person starts it, it ends with status 1.
//
// Its code and its tests are in packages sandbox/child and sandbox/reaper. Each session has one of these
// processes, so it stays small: a test of package child lists the packages that it may link.
package main

import "github.com/sandboxd/sandboxd/sandbox/child"

func main() { child.Main() }
