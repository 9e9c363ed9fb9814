package limit_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/sandbox/limit"
)

// Without control groups only rlimits hold memory, for each process by itself.
func Example() {
	held := limit.Held(true, nil)
	fmt.Println("memoryBytes:", held["memoryBytes"])
	fmt.Println("wallSeconds:", held["wallSeconds"])
	// Output:
	// memoryBytes: rlimit of each process
	// wallSeconds: clock
}
