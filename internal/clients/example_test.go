package clients_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/internal/clients"
)

func Example() {
	claude, _ := clients.Find("claude-code")
	for _, name := range []string{"TaskCreate", "Bash", "WebSearch", "Tomorrow"} {
		t := claude.Tool(name)
		fmt.Printf("%s: %s %q\n", t.Name, t.Act, t.Ours)
	}
	// Output:
	// TaskCreate: pass ""
	// Bash: as "Bash"
	// WebSearch: by-name ""
	// Tomorrow: by-name ""
}
