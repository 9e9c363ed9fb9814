package host_test

import (
	"context"
	"fmt"

	"github.com/sandboxd/sandboxd/agent/host"
)

// A person who names a socket means that daemon: none is started.
func ExampleFind() {
	env := func(name string) string {
		return map[string]string{"SANDBOXD_SOCKET": "/nosuch/agent.sock"}[name]
	}
	socket, err := host.Find(context.Background(), "/srv/project", env, func(text string) { fmt.Println(text) })
	fmt.Println(socket, err != nil)
	// Output: /nosuch/agent.sock true
}
