package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/sandboxd/sandboxd/tests/pty"
)

// unseen are characters that a terminal shows as nothing or as a space, and that no parser
// of commands refuses.
var unseen = []rune{0x34f, 0x115f, 0x1160, 0x17b4, 0x2800, 0x3164, 0xffa0, 0xfe0f, 0xe0100, 0xa0, 0x2003}

// tool runs sandboxd as a person does, and returns what it printed.
func (d *running) tool(onTerminal bool, args ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), filepath.Join(bin, "sandboxd"), args...)
	cmd.Dir, cmd.Env = d.ws, append(slices.Clip(d.env), "NO_COLOR=1")
	if !onTerminal {
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // some of these are to fail
		return out.String()
	}
	person, program := pty.Open(d.t, 200)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = program, program, program, pty.Session()
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	program.Close()
	var out bytes.Buffer
	_, _ = out.ReadFrom(person) // ends with an error when the terminal closes
	_ = cmd.Wait()
	return out.String()
}

// Whatever a model writes, and wherever it is shown to a person, nothing of it is hidden.
func TestVisible_TextOfOthersIsShown(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "policy: {rules: {ask: ['Bash(touch *)']}}\nlog: {level: debug}\n")
	hidden := string(unseen)
	text := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	in := map[string]any{"id": "s1", "tag": "tag" + hidden, "title": hidden}
	if err := d.agent.Do(t.Context(), "POST", "/sessions", in, nil); err != nil {
		t.Fatal(err)
	}
	// The session of the command line lists sessions and variables of its own account.
	value := "value " + hidden + "\x1b[31m"
	in = map[string]any{"value": value, "desc": "desc " + hidden, "tags": []string{"tag"}}
	for _, name := range []string{"plain", "name" + hidden} {
		if err := d.agent.Do(t.Context(), "PUT", "/sessions/s1/vars/"+name, in, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for name, args := range map[string]any{
		"AskUser": map[string]any{"question": "may I" + hidden + "?", "options": []string{hidden}},
		"Bash":    map[string]any{"command": "touch 'a" + hidden + "'", "description": hidden},
	} {
		go func() { _, _ = d.agent.Call(ctx, "s1", name, text(args)) }()
	}
	var asked []struct {
		ID string `json:"id"`
	}
	if !waitFor(func() bool {
		return d.operator.Do(t.Context(), "GET", "/approvals", nil, &asked) == nil && len(asked) == 2
	}) {
		t.Fatalf("%d questions came\n%s", len(asked), d.log)
	}
	printf := string(text(map[string]string{"command": "printf '%s' 'out" + hidden + "'"}))
	for _, args := range [][]string{
		{"approvals", "list"},
		{"approvals", "list", "--json"},
		{"approvals", "show", asked[0].ID},
		{"approvals", "show", asked[1].ID},
		{"approvals", "show", asked[1].ID, "--json"},
		{"vars", "ls", "--session", "s1"},
		{"vars", "ls", "--session", "s1", "--json"},
		{"vars", "rm", "--session", "s1", "none" + hidden},
		{"sessions", "ls"},
		{"sessions", "ls", "--json"},
		{"call", "--session", "s1", "Bash", printf},
		{"call", "--session", "s1", "None" + hidden, "{}"},
		{"call", "--session", "s1", "Read", string(text(map[string]string{"file_path": "none" + hidden}))},
		{"vars", "get", "--session", "s1", "plain"},
		{"check", "command", "touch 'a" + hidden + "'"},
		{"check", "path", "a" + hidden},
		{"policy", "eval", "Bash", printf},
		{"audit", "tail"},
		{"log"},
		{"log", "--json"},
		{"status"},
		{"status", "--json"},
		{"audit", "tail", "--json"},
		{"none" + hidden},
	} {
		for _, onTerminal := range []bool{true, false} {
			out := d.tool(onTerminal, args...)
			bytesOfPrograms := !onTerminal && (args[0] == "call" && args[3] == "Bash" || args[0] == "vars" && args[1] == "get" ||
				strings.Join(args, " ") == "audit tail --json")
			for _, r := range out {
				seen := r == ' ' || r == '\n' || r == '\t' || r == '\r' && onTerminal ||
					unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S)
				if strings.ContainsRune(hidden, r) || !seen {
					if bytesOfPrograms {
						continue
					}
					t.Errorf("%q on a terminal: %v: shows %U: %q", args, onTerminal, r, out)
					break
				}
			}
			if bytesOfPrograms && args[0] != "audit" && !strings.Contains(out, hidden) {
				t.Errorf("%q: what a program printed has changed: %q", args, out)
			}
			if strings.Contains(strings.Join(args, " "), "--json") && args[0] != "audit" && args[0] != "log" && !json.Valid([]byte(out)) {
				t.Errorf("%q on a terminal: %v: no JSON: %q", args, onTerminal, out)
			}
		}
	}
	if shown := d.tool(false, "approvals", "show", asked[0].ID); !strings.Contains(shown, `\u{34f}\u{115f}`) {
		t.Errorf("a question shows %q", shown)
	}
	for _, r := range unseen {
		if strings.ContainsRune(d.log.String(), r) {
			t.Errorf("the log shows %U", r)
		}
	}
	d.stop(os.Interrupt)
}
