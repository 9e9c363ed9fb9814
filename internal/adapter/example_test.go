package adapter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/sandboxd/sandboxd/internal/adapter"
	"github.com/sandboxd/sandboxd/internal/clients"
)

// careful is a daemon that denies every command.
type careful struct{}

func (careful) Do(_ context.Context, _, _ string, _, out any) error {
	return json.Unmarshal([]byte(`{"decision": {"verdict": "deny", "reasons": [
		{"rule": "core.git_push_force", "message": "this rewrites history of the remote"}]}}`), out)
}

func Example() {
	call := strings.NewReader(`{"hook_event_name": "PreToolUse", "session_id": "abc", "cwd": "/src",
		"tool_name": "run_shell_command", "tool_input": {"command": "git push --force"}}`)
	err := adapter.Answer(context.Background(), careful{}, call, os.Stdout, adapter.Options{
		Agent: clients.Gemini, Exe: "/usr/bin/sandboxd",
	})
	fmt.Println(err)
	err = adapter.Answer(context.Background(), careful{}, strings.NewReader(`{"hook_event_name": "Tomorrow",
		"tool_name": "Bash", "cwd": "/src"}`), os.Stdout, adapter.Options{Agent: clients.ClaudeCode})
	fmt.Println(err != nil)
	// Output:
	// {"decision":"deny","reason":"sandboxd denied this call: this rewrites history of the remote (core.git_push_force). What to do: go on without this call, or ask your person for another way."}
	// <nil>
	// true
}
