// The command sandboxd-child is the launcher of sandboxed programs. With one flag it is the reaper
// of the operator's own programs such as hooks. sandboxd starts it, with a socket of package wire
// as a descriptor; it takes no other words. If a person starts it, it prints an error and ends.
// Its code is in packages sandbox/child and sandbox/reaper.
package main

import "github.com/sandboxd/sandboxd/sandbox/child"

func main() { child.Main() }
