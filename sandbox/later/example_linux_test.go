package later_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/sandbox/later"
)

// A call makes a repository whose configuration names a program.
func Example() {
	ws, err := os.MkdirTemp("", "later-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(ws)
	index := later.NewIndex()
	defer index.Close()
	trees := index.Trees([]string{ws})
	before, began := trees.State(), time.Now()

	config := filepath.Join(ws, ".git", "config")
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		fmt.Println(err)
		return
	}
	if err := os.WriteFile(config, []byte("[core]\n\tfsmonitor = evil\n"), 0o644); err != nil {
		fmt.Println(err)
		return
	}

	for _, c := range trees.Quarantine(before, began, filepath.Join(ws, "quarantine")) {
		fmt.Println(c.Layer, strings.ReplaceAll(c.Act, ws, "WS"))
	}
	// Output:
	// denied_path_created create WS/.git/config, from which git would run a program outside the sandbox; it was moved to quarantine
}
