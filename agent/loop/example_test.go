package loop_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/agent/loop"
	"github.com/sandboxd/sandboxd/client"
)

// A budget that cannot be held is refused before the first prompt.
func ExampleNew() {
	usd := 2.0
	_, err := loop.New(client.New("/run/sandboxd/agent.sock"), loop.Session{}, loop.Options{Model: "own-1", Budget: &usd})
	fmt.Println(err)
	_, err = loop.New(client.New("/run/sandboxd/agent.sock"), loop.Session{}, loop.Options{
		Model: "own-1", Budget: &usd, Prices: []string{"own-1=0.5/2"},
	})
	fmt.Println(err)
	// Output:
	// no price is known for own-1, so its budget cannot be held: give --price own-1=IN/OUT, in USD per million tokens
	// <nil>
}
