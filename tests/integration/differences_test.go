package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/tier"
)

// TestX22_LinesThatBashReadsDifferentlyPassNoRule sends the lines of which the guard's
// own test shows that bash runs rm in them to a daemon that forbids rm, by a rule and by
// the settings, as calls and (with the settings) through the hook of another agent: none is
// allowed, and those that hold rm as data are.
func TestX22_LinesThatBashReadsDifferentlyPassNoRule(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"a rule":       "policy:\n  rules:\n    deny: ['Bash(rm *)']\n",
		"the settings": "sandbox:\n  deniedCommands: [rm]\n",
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, config)
			session := d.session()
			tried := 0
			for _, l := range differences(t) {
				if unknownName[l.Technique] && name == "a rule" {
					continue
				}
				byHook := name == "the settings" && tried%4 == 0 || tier.IsLong()
				tried++
				tryDifference(t, d, session, l, byHook)
			}
			if tried < 200 {
				t.Errorf("%d lines were tried: the file is not what it was", tried)
			}
		})
	}
}

// unknownName are the techniques whose lines leave a name that nobody can know: no rule
// speaks of it, and a list of denied commands does.
var unknownName = map[string]bool{
	"failed-assignment": true, "variable-of-bash": true, "unknown-part": true, "unknown-declaration": true,
	"early-end": true, "early-output": true, "aborted-line": true, "pattern-places": true, "prefix-stays": true,
	"exported-function": true, "splitting": true, "local-name": true, "descriptor-name": true, "sh-unknown-name": true,
	"prefix-of-eval": true, "prefix-of-function": true, "redirected-output": true,
	"assigning-expansion": true, "refused-set": true, "refused-printf": true, "child-value": true,
}

func tryDifference(t *testing.T, d *running, session string, l difference, byHook bool) {
	t.Helper()
	args, err := json.Marshal(map[string]string{"command": l.Command})
	if err != nil {
		t.Fatal(err)
	}
	var judged struct {
		Decision struct {
			Verdict string
			Reasons []struct{ Rule, Message string }
		}
	}
	in := map[string]any{"session_id": session, "tool": "Bash", "args": json.RawMessage(args)}
	if err := d.agent.Do(t.Context(), "POST", "/decide", in, &judged); err != nil {
		t.Fatalf("%q: %v\n%s", l.Command, err, d.log)
	}
	want := "allow"
	if l.Runs {
		want = "deny"
	}
	hook := want
	if byHook { // a program each
		hook = hookDecision(t, d, args)
	}
	if judged.Decision.Verdict != want || hook != want {
		t.Errorf("%s %s: daemon %s, hook %s, want %s: %q: %+v", l.ID, l.Technique, judged.Decision.Verdict, hook, want,
			l.Command, judged.Decision.Reasons)
	}
}

// difference is one line of the guard's corpus.
type difference struct {
	ID, Technique, Command, Expect string
	Runs                           bool
}

// differences are the lines that are allowed, and those in which bash runs rm.
func differences(t *testing.T) []difference {
	t.Helper()
	found, err := filepath.Glob("../../*/testdata/differences.jsonl")
	if err != nil || len(found) != 1 {
		t.Fatalf("differences.jsonl: %v, %v", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var out []difference
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		var l difference
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.Runs || l.Expect == "allow" {
			out = append(out, l)
		}
	}
	return out
}

// hookDecision is what the hook of another agent answers to a Bash call; nobody is
// there to be asked.
func hookDecision(t *testing.T, d *running, args []byte) string {
	t.Helper()
	event, err := json.Marshal(map[string]any{
		"session_id": "s1", "cwd": d.ws, "hook_event_name": "PreToolUse", "tool_name": "Bash",
		"tool_input": json.RawMessage(args),
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), "hook", "--timeout", "20s")
	cmd.Dir, cmd.Env, cmd.Stdin = d.ws, d.env, strings.NewReader(string(event))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("hook: %v: %s", err, out)
	}
	var answer struct {
		HookSpecificOutput struct{ PermissionDecision string }
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("hook answered %q: %v", out, err)
	}
	return answer.HookSpecificOutput.PermissionDecision
}
