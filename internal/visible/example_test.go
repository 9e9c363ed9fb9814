package visible_test

import (
	"fmt"
	"os"

	"github.com/sandboxd/sandboxd/internal/visible"
)

func Example() {
	fmt.Println(visible.Text("rm\u00a0-rf \u202ex"))
	fmt.Fprintln(visible.NewWriter(os.Stdout), `{"text": "`+"\x1b[2J"+`"}`)
	// Output:
	// rm\u{a0}-rf \u{202e}x
	// {"text": "\u001b[2J"}
}
