package bound_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/sandbox/bound"
)

func Example() {
	path, arg := bound.Interpreter([]byte("#!/usr/bin/env bash\n"))
	fmt.Printf("%q, %q\n", path, arg)
	// Output: "/usr/bin/env", "bash"
}
