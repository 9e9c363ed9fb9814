package integration

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkHookAdapter is a call of another agent judged by its hook, a process
// of its own, over two starts of sandboxd version and the daemon's answer.
func BenchmarkHookAdapter(b *testing.B) {
	d := newDaemon(b, "")
	d.write("ws/a.txt", "one line\n")
	file := filepath.Join(d.ws, "a.txt")
	call, err := json.Marshal(map[string]any{
		"session_id": "s", "cwd": d.ws, "hook_event_name": "PreToolUse", "tool_name": "Read",
		"tool_input": map[string]string{"file_path": file},
	})
	if err != nil {
		b.Fatal(err)
	}
	exe, session := filepath.Join(bin, "sandboxd"), d.session()
	version := func() { run(b, exe, "version") }
	answer := func() {
		in := map[string]any{"session_id": session, "tool": "Read", "args": map[string]string{"file_path": file}, "cwd": d.ws, "wait": true}
		if err := d.agent.Do(b.Context(), "POST", "/decide", in, nil); err != nil {
			b.Fatal(err)
		}
	}
	bench.Compare(b, []bench.Case{
		{Name: "version", N: 100, Run: version},
		{Name: "answer", N: 100, Run: answer},
		{Name: "two of version, and an answer", N: 100, Run: func() { version(); version(); answer() }},
		{Name: "hook", N: 100, Run: func() {
			cmd := exec.Command(exe, "hook")
			cmd.Env, cmd.Stdin = d.env, bytes.NewReader(call)
			if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), `"permissionDecision":"allow"`) {
				b.Fatalf("%s, %v", out, err)
			}
		}},
	}, bench.Limit{Case: "hook", Over: "two of version, and an answer", AtMost: 1}, bench.Limit{Case: "hook", Over: "version"})
}
