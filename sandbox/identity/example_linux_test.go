package identity_test

import (
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/sandbox/identity"
)

// Nothing runs for an id that no process can have.
func Example() {
	id := identity.ID{UID: -1, GID: 1001, Groups: []int{100}}
	err := id.Do(func() error { fmt.Println("ran"); return nil })
	fmt.Println(errors.Is(err, identity.ErrNotTaken))
	// Output: true
}
