// The command sandboxd-child is the small launcher that the daemon starts once
// for each session, and the reaper that it starts for each hook. It does nothing when a person runs it.
package main

import "github.com/sandboxd/sandboxd/sandbox/child"

func main() { child.Main() }
