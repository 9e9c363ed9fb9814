package obeyed_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/guard/obeyed"
)

func Example() {
	n := obeyed.Find("/ws/pkg/.vscode/tasks.json", "/ws")
	fmt.Println(n.Name, n.Where, n.Program)
	fmt.Println(obeyed.Find("/ws/pkg/main.go", "/ws") == nil)
	fmt.Println(obeyed.Git("hooks/pre-commit"), obeyed.Git("refs/heads/main"))
	// Output:
	// .vscode open VS Code and its kin
	// true
	// keep free
}
