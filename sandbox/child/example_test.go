package child_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// A program that the daemon may start as its launcher asks this first.
func Example() {
	if child.IsChild() {
		child.Main() // never returns
	}
	fmt.Println("not the launcher")
	// Output: not the launcher
}
