package terminal_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/sandboxd/sandboxd/agent/loop"
	"github.com/sandboxd/sandboxd/agent/terminal"
)

// Programs read a line of JSON for each message.
func Example() {
	failed := func(err error) { fmt.Println("failed:", err) }
	tell := terminal.Lines(os.Stdout, failed)
	for line := range terminal.Input(strings.NewReader("build it\n\n"), func() {}, failed) {
		tell(loop.UserMessage{Text: line})
	}
	// Output: {"type":"userMessage","text":"build it"}
}
