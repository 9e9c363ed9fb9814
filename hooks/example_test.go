package hooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func Example() {
	ctx := context.Background()
	r, err := hooks.New(hooks.Options{Hooks: map[string][]hooks.Definition{
		"preToolUse":   {{Command: `cat >/dev/null; echo '{"decision": "block", "reason": "no"}'`, Matcher: "^Bash$"}},
		"sessionStart": {{Command: "cat >/dev/null; echo '{\"systemMessage\": \"Run make first.\"}'"}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"Bash", "Read"} {
		call := &tool.Call{
			Request: tool.Request{Tool: name},
			Target:  tool.Target{Spec: tool.Spec{Name: name}, Session: tool.Session{ID: "s1", Dir: "/"}},
			In:      tool.In{Args: json.RawMessage("{}")},
		}
		advice, err := r.Before(ctx, call)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: block %v %q\n", name, advice.Block, advice.Reason)
	}
	answer, err := r.Fire(ctx, hooks.SessionStart, hooks.Input{SessionID: "s1", Cwd: "/"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Advice.Messages)
	// Output:
	// Bash: block true "no"
	// Read: block false ""
	// [Run make first.]
}
