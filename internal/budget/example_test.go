package budget_test

import (
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/internal/budget"
)

func Example() {
	b := budget.New(budget.Limits{Bytes: 64 << 20, Connections: 1000, Concurrent: 1000})
	h, err := b.Request("team") // one more request; 429 with a hint when there are too many
	if err != nil {
		log.Fatal(err)
	}
	defer h.Release()            // everything that h has taken
	fmt.Println(h.Take(8 << 20)) // before a body of 8 MiB is read
	fmt.Println(h.Take(64 << 20))
	// Output:
	// <nil>
	// the request needs 75522048 bytes of memory, and one account has 33554432
}
