package idspace_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/internal/idspace"
)

// A process that nobody gave the capabilities to become others stays as it is.
func Example() {
	inside, err := idspace.Enter()
	fmt.Println(idspace.Wanted(), inside, err)
	// Output: false <nil> <nil>
}
