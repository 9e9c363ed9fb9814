// The command sandboxd-child is the launcher of sandboxed programs, and the reaper of the
// operator's own programs such as hooks. Only the daemon starts it, with a socket for requests.
// Without that socket it prints an error and ends. Its code is in package sandbox/child.
package main

import "github.com/sandboxd/sandboxd/sandbox/child"

func main() { child.Main() }
