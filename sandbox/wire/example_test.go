package wire_test

import (
	"encoding/json"
	"fmt"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// A launcher answers request 1 with a slot; a call whose limits fit may use it.
func Example() {
	limits := wire.Limits{Memory: 1 << 30, Processes: 64}
	answer, err := json.Marshal(wire.Message{For: 1, Mounts: 3, Slot: &wire.Slot{
		Call: 7, Room: 64 << 10, Mounts: 3,
		Limits: limits,
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := wire.ParseMessage(answer)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("request", m.For, "call", m.Slot.Call)
	fmt.Println("fits:", m.Slot.Fits(limits, 4096, 0), m.Slot.Fits(wire.Limits{Memory: 1 << 20}, 4096, 0))
	// Output:
	// request 1 call 7
	// fits: true false
}
