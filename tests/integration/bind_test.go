package integration

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/runner"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

const (
	goodDeploy = "#!/bin/sh\necho good $*\n"
	evilDeploy = "#!/bin/sh\necho EVIL $*\ntouch \"$(dirname \"$0\")/../EVIL\" 2>&-\n"
	deployAsks = "policy:\n  rules:\n    ask: [\"Bash(deploy.sh*)\", \"Bash(make*)\", \"Bash(npm*)\", \"Bash(python3*)\"]\n"
)

// asked sends a call, and answers each question about it in turn. The last answer serves all
// further questions.
func (d *running) asked(t *testing.T, session, name, args string, answers ...func(question) (any, error)) client.Result {
	t.Helper()
	over := make(chan client.Result, 1)
	go func() {
		r, err := d.agent.Call(context.WithoutCancel(t.Context()), session, name, json.RawMessage(args))
		if err != nil {
			t.Errorf("%s %s: %v", name, args, err)
		}
		over <- r
	}()
	var result client.Result
	n, seen := 0, map[string]bool{}
	ok := waitFor(func() bool {
		select {
		case result = <-over:
			return true
		default:
		}
		var pending []question
		err := d.operator.Do(t.Context(), "GET", "/approvals?session_id="+session, nil, &pending)
		if err != nil || len(pending) == 0 || seen[pending[0].ID] {
			return false
		}
		q := pending[0]
		seen[q.ID] = true
		answer, err := answers[min(n, len(answers)-1)](q)
		n++
		if err == nil && answer != nil {
			err = d.operator.Do(t.Context(), "POST", "/approvals/"+q.ID, answer, nil)
		}
		if err != nil {
			t.Errorf("answer %d: %v", n, err)
		}
		return false
	})
	if !ok {
		t.Fatalf("%s %s was not answered after %d questions\n%s", name, args, n, d.log)
	}
	return result
}

func yes(question) (any, error) { return map[string]any{"approved": true}, nil }
func no(question) (any, error) {
	return map[string]any{"approved": false, "reason": "asked twice"}, nil
}

// TestAnAnswerBindsAtThePointOfUse has each way in which an answer was found to serve for
// something else than what was asked: what changes while the question waits holds, or is
// asked about.
func TestAnAnswerBindsAtThePointOfUse(t *testing.T) {
	t.Parallel()
	edit := func(command string) any {
		return map[string]any{"approved": true, "args": map[string]any{"command": command}}
	}
	mode := func(name string) func(*running, string) error {
		return func(d *running, s string) error {
			return d.operator.Do(t.Context(), "PATCH", "/sessions/"+s, map[string]any{"mode": name}, nil)
		}
	}
	const modeAsks = "sessions:\n  mode: default\nsandbox:\n  autoAllowBashIfSandboxed: false\n"
	for _, tt := range []struct {
		name, command string
		config        string                                              // "": deployAsks
		answer        func(d *running, s string, q question) (any, error) // nil: yes
		meanwhile     func(d *running, s string) error
		code          string // of the error; "" where a second question was refused
		runs          string // what is printed instead
	}{
		{name: "nothing changes", command: "./deploy.sh prod", runs: "good prod"},
		{
			name: "the session is set to plan", command: "./deploy.sh prod", meanwhile: mode("plan"),
		},
		{
			name: "the session is set to ask nothing", command: "./deploy.sh prod", config: modeAsks,
			code: "mode_deny", meanwhile: mode("dontAsk"),
		},
		{
			name: "the session's settings ban the command", command: "./deploy.sh prod", code: "command_denied",
			meanwhile: func(d *running, s string) error {
				ban := map[string]any{"sandbox": map[string]any{"deniedCommands": []string{"deploy.sh"}}}
				return d.operator.Do(t.Context(), "PATCH", "/sessions/"+s, ban, nil)
			},
		},
		{
			name: "a reload brings a rule that denies", command: "./deploy.sh prod", code: "policy_deny",
			meanwhile: func(d *running, _ string) error {
				d.write("config.yaml", "policy:\n  rules:\n    deny: [\"Bash(deploy.sh*)\"]\n")
				return d.operator.Do(t.Context(), "POST", "/reload", nil, nil)
			},
		},
		{
			name: "a reload brings settings that ban it", command: "./deploy.sh prod", code: "command_denied",
			meanwhile: func(d *running, _ string) error {
				d.write("config.yaml", deployAsks+"sandbox:\n  deniedCommands: [deploy.sh]\n")
				return d.operator.Do(t.Context(), "POST", "/reload", nil, nil)
			},
		},
		{
			name: "a policy file is added", command: "./deploy.sh prod", code: "policy_deny",
			config: "policy:\n  workspace: true\n" + deployAsks[len("policy:\n"):],
			meanwhile: func(d *running, _ string) error {
				d.write("ws/.sandboxd/policy.json", `{"deny": ["Bash(deploy.sh*)"]}`)
				return d.operator.Do(t.Context(), "POST", "/policies/reload", nil, nil)
			},
		},
		{
			name: "the script changes", command: "./deploy.sh prod",
			meanwhile: func(d *running, _ string) error { return replace(d.ws+"/deploy.sh", evilDeploy) },
		},
		{
			name: "the makefile changes", command: "make deploy",
			meanwhile: func(d *running, _ string) error { return replace(d.ws+"/Makefile", "deploy:\n\t@echo EVIL\n") },
		},
		{
			name: "the makefile changes back", command: "make deploy", runs: "good make",
			meanwhile: func(d *running, _ string) error {
				was, err := os.ReadFile(d.ws + "/Makefile")
				if err == nil {
					err = replace(d.ws+"/Makefile", "deploy:\n\t@echo EVIL\n")
				}
				if err == nil {
					err = replace(d.ws+"/Makefile", string(was))
				}
				return err
			},
		},
		{
			name: "a makefile appears that comes first", command: "make deploy",
			meanwhile: func(d *running, _ string) error { return replace(d.ws+"/GNUmakefile", "deploy:\n\t@echo EVIL\n") },
		},
		{
			name: "an interpreter's file changes", command: "python3 tool.py",
			meanwhile: func(d *running, _ string) error { return replace(d.ws+"/tool.py", "print('EVIL')\n") },
		},
		{
			name: "edited, and nothing changes", command: "./deploy.sh prod", runs: "good staging",
			answer: func(*running, string, question) (any, error) { return edit("./deploy.sh staging"), nil },
		},
		{
			name: "edited, after the script changed", command: "./deploy.sh prod",
			meanwhile: func(d *running, _ string) error { return replace(d.ws+"/deploy.sh", evilDeploy) },
			answer:    func(*running, string, question) (any, error) { return edit("./deploy.sh staging"), nil },
		},
		{
			name: "edited to another file than was shown", command: "./deploy.sh prod", runs: "good make",
			answer: func(*running, string, question) (any, error) { return edit("make deploy"), nil },
		},
		{
			name: "edited, after the session was set to plan", command: "./deploy.sh prod", meanwhile: mode("plan"),
			answer: func(*running, string, question) (any, error) { return edit("./deploy.sh staging"), nil },
		},
		{
			name: "edited, after the session was set to ask nothing", command: "./deploy.sh prod", config: modeAsks,
			code: "mode_deny", meanwhile: mode("dontAsk"),
			answer: func(d *running, _ string, q question) (any, error) {
				err := d.operator.Do(t.Context(), "POST", "/approvals/"+q.ID, edit("./deploy.sh staging"), nil)
				if err == nil || !strings.Contains(err.Error(), "cannot run with these arguments") {
					t.Errorf("the edit was taken: %v", err)
				}
				return yes(q)
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDaemon(t, cmp.Or(tt.config, deployAsks))
			d.write("ws/deploy.sh", goodDeploy)
			d.write("ws/Makefile", "deploy:\n\t@echo good make\n")
			d.write("ws/tool.py", "print('good python')\n")
			if err := os.Chmod(d.ws+"/deploy.sh", 0o700); err != nil {
				t.Fatal(err)
			}
			s := d.session()
			args, err := json.Marshal(map[string]any{"command": tt.command})
			if err != nil {
				t.Fatal(err)
			}
			first := func(q question) (any, error) {
				if tt.meanwhile != nil {
					if err := tt.meanwhile(d, s); err != nil {
						return nil, err
					}
				}
				if tt.answer != nil {
					return tt.answer(d, s, q)
				}
				return yes(q)
			}
			r := d.asked(t, s, "Bash", string(args), first, no)
			want := tt.code
			if want == "" && tt.runs == "" {
				want = "execution_rejected"
			}
			got := ""
			if r.Error != nil {
				got = r.Error.Code
			}
			if got != want || !strings.Contains(r.FinalText, tt.runs) || strings.Contains(r.FinalText, "EVIL") {
				t.Errorf("got %s %q %q, want %q %q", r.Status, got, r.FinalText, want, tt.runs)
			}
		})
	}
}

// replace puts another file in the place of one, by a rename.
func replace(path, text string) error {
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o700); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// TestWhatCannotBeBoundIsNamed: where the host does not let files be bound, or another
// program runs the call, the question says so, and a yes is one to that.
func TestWhatCannotBeBoundIsNamed(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for host := range cannotBind {
		t.Run(host, func(t *testing.T) {
			d := newDaemon(t, deployAsks)
			d.stop(os.Interrupt)
			d.command = []string{exe, bin + "/sandboxd", "serve"}
			d.env = append(d.env, lackEnv+"="+host)
			d.start()
			d.scripts(t)
			r := d.asked(t, d.session(), "Bash", `{"command":"./deploy.sh prod"}`, func(q question) (any, error) {
				not := strings.Join(q.Facts.NotBound, "\n")
				if len(q.Facts.Bound) > 0 || !strings.HasPrefix(not, d.ws+"/deploy.sh: ") {
					t.Errorf("the question says %+v", q.Facts)
				}
				t.Log(not)
				return yes(q)
			})
			if !strings.HasPrefix(r.FinalText, "good prod") {
				t.Errorf("after a yes: %+v", r)
			}
		})
	}
	t.Run("another program runs it", func(t *testing.T) {
		d := newDaemon(t, deployAsks)
		d.scripts(t)
		s, over := d.session(), make(chan error, 1)
		go func() {
			in := map[string]any{
				"session_id": s, "tool": "Bash", "args": map[string]any{"command": "./deploy.sh prod"}, "wait": true,
			}
			over <- d.agent.Do(t.Context(), "POST", "/decide", in, nil)
		}()
		q := d.waiting(1)[0]
		if len(q.Facts.Bound) > 0 || len(q.Facts.NotBound) != 1 ||
			!strings.HasPrefix(q.Facts.NotBound[0], "anything: another program runs this call") {
			t.Errorf("the question says %+v", q.Facts)
		}
		err := d.operator.Do(t.Context(), "POST", "/approvals/"+q.ID, map[string]any{"approved": false}, nil)
		if err := errors.Join(err, <-over); err != nil {
			t.Error(err)
		}
	})
}

// TestAClientStartsNothingElseThanWasApproved: a client that runs a judged call compares each file with what a person
// approved. If one has another content, nothing starts; if not, the program gets that content.
func TestAClientStartsNothingElseThanWasApproved(t *testing.T) {
	t.Parallel()
	d := newPlaces(t, "")
	d.write("ws/deploy.sh", goodDeploy)
	script := filepath.Join(d.ws, "deploy.sh")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, approved := range []string{goodDeploy, evilDeploy} {
		out, err := os.Create(filepath.Join(d.work, "out"))
		if err != nil {
			t.Fatal(err)
		}
		p := runner.New(nil, out, out)
		p.Child = filepath.Join(bin, "sandboxd-child")
		end := p.Leased(t.Context(), tool.Lease{
			CallID: "call_A", Session: "ses_1", Argv: []string{script, "prod"}, Dir: d.ws, Home: d.home, Profile: "strict",
			Settings: guard.DefaultSettings(d.ws, d.home, nil), Roots: []string{d.ws},
			Bound: []sandbox.Approved{{
				Path: script, Names: []string{script}, Sum: fmt.Sprintf("%x", sha256.Sum256([]byte(approved))),
			}},
		}, nil)
		out.Close()
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		if approved == goodDeploy {
			if end.Failure != "" || string(text) != "good prod\n" {
				t.Errorf("as approved: it printed %q, %+v", text, end)
			}
		} else if !strings.Contains(end.Failure, script) || len(text) > 0 {
			t.Errorf("another file: it printed %q, %+v", text, end)
		}
	}
}
