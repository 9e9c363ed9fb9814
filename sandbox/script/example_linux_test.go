package script_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// The operations of a call can be printed before they are run.
func Example() {
	call := script.Call{
		Argv: []string{"true"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/work",
		Limits:  wire.Limits{CPUSeconds: 10},
		Devices: [3]script.Device{{Path: "/dev/null"}}, // the other streams are sent
	}
	slot := wire.Slot{Arena: 0x7000_0000_0000, Area: 0x7000_0000_1000, Room: 64 << 10}
	fmt.Println("fits:", slot.Fits(wire.Limits{}, call.Room(), 0))
	for _, op := range script.Compile(slot, call).Ops {
		if op.Name != "" {
			fmt.Println(op)
		}
	}
	// Output:
	// fits: true
	// open /dev/null
	// dup3 0
	// dup3 1
	// dup3 2
	// setpgid
	// chdir /work
	// umask
	// setrlimit cpu 10
	// setrlimit core 0
	// close other descriptors
	// unblock signals
	// execve /usr/bin/true
	// execve /bin/true
	// execve true
}
