package launch_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/sandbox/launch"
)

// A pool asks for a launcher when the first call of a session needs one. Here there is
// none, and the call is told why.
func Example() {
	pool := launch.NewPool(func() (*launch.Launcher, error) { return nil, errors.New("no namespaces") })
	defer pool.Close()
	_, err := pool.Get(context.Background(), "session", launch.Config{Key: "key"}, launch.Entry{})
	fmt.Println(err)
	// Output: no namespaces
}
