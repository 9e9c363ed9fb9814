package hooks

import (
	"context"
	"os"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

func TestMain(m *testing.M) {
	if child.IsChild() {
		child.Main()
	}
	if len(os.Args) == 3 && os.Args[1] == "-fire" { // a daemon that a test kills
		r, err := New(Options{Hooks: map[string][]Definition{"preToolUse": {{Command: os.Args[2]}}}})
		if err == nil {
			_, err = r.Fire(context.Background(), PreToolUse, Input{})
		}
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
