// The command sandboxd-child is the launcher of sandboxed programs. With the flag of package reaper
// it is the reaper of the operator's own programs, such as hooks. sandboxd starts it, with a socket to
// the daemon as a descriptor: package wire has the messages to the launcher, reaper those to a reaper.
// If a person starts it, it ends with status 1. All of its code is in packages sandbox/child and
// sandbox/reaper, with its tests: each sandbox has one, so a test there says which packages it may link.
package main

import "github.com/sandboxd/sandboxd/sandbox/child"

func main() { child.Main() }
