package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/sandboxd/sandboxd/internal/runner"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func Example() {
	p := runner.New(os.Stdin, os.Stdout, os.Stderr)
	args := json.RawMessage(`{"argv": ["cp", "notes; rm -rf /", "/backup"]}`)
	uses, err := p.Uses(context.Background(), tool.In{Args: args, Dir: "/src"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range uses.Script.Commands {
		fmt.Println("runs", c.Name)
	}
	for _, u := range uses.Paths {
		fmt.Printf("%v %q\n", u.Op, u.Path)
	}
	// Output:
	// runs cp
	// read "/src/notes; rm -rf "
	// write "/backup"
}
