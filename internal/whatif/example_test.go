package whatif_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/whatif"
	"github.com/sandboxd/sandboxd/policy"
)

func Example() {
	stdin := strings.NewReader(`{"command": "git push"} {"command": "ls", "mode": "plan"}`)
	calls := whatif.Calls{Mode: tool.ModeDefault}
	err := calls.Each(stdin, func(e policy.Example) error {
		fmt.Println(e.Command, e.Mode)
		return nil
	})
	fmt.Println(err)

	whatif.PrintExplanation(os.Stdout, policy.Explanation{
		Decision: tool.Decision{Verdict: tool.Ask, Reasons: []tool.Reason{{Rule: "core.push", Message: "it publishes"}}},
		Input:    []byte(`{"commands": [{"discards": ["what was not committed"]}]}`),
		Note:     "hooks were not asked",
	})
	// Output:
	// git push default
	// ls plan
	// <nil>
	// ask, decided by core.push
	//   core.push: it publishes
	//   discards  what was not committed
	// note: hooks were not asked
}
