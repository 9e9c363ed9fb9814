package ctime_test

import (
	"fmt"
	"os"

	"github.com/sandboxd/sandboxd/sandbox/ctime"
)

// A directory that has just been made may change again within the step of the clock, so
// the first answer is no.
func Example() {
	dir, err := os.MkdirTemp("", "ctime-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	var dirs ctime.Set
	dirs.Add(dir)
	fmt.Println("unchanged:", dirs.Unchanged())
	// Output: unchanged: false
}
