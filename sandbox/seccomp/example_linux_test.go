package seccomp_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/sandbox/seccomp"
)

// Both filters are compiled once; later calls return the same.
func Example() {
	filters := seccomp.New()
	plain, listen := filters.For(false)
	again, _ := filters.For(false)
	fmt.Println("the same filter:", &plain[0] == &again[0])
	fmt.Println("asking about connect makes it longer:", len(listen) > len(plain))
	// Output:
	// the same filter: true
	// asking about connect makes it longer: true
}
