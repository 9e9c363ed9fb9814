package limit_test

import (
	"fmt"
	"os"
	"time"

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

// A call is measured from its start until none of its processes is left.
func ExampleDisk() {
	disk := limit.NewDisk(limit.Reserve{Dirs: []string{os.TempDir()}, Bytes: 1})
	defer disk.Close()
	use := &limit.DiskUse{
		Session: "s1", Places: []string{os.TempDir()}, Since: time.Now(), Limit: 1 << 40,
		Exceeded: func() { fmt.Println("end the call") },
	}
	disk.Watch(use)
	// … the call runs …
	exceeded, removed := disk.Unwatch(use)
	fmt.Println(exceeded, removed)
	// Output: false 0
}
