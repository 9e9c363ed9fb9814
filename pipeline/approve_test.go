package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
)

// meanwhile does something while the first question waits.
type meanwhile struct {
	*world
	act func()
}

func (m *meanwhile) Execution(ctx context.Context, c *tool.Call) (tool.Approval, error) {
	a, err := m.world.Execution(ctx, c)
	if m.act != nil {
		m.act()
		m.act = nil
	}
	return a, err
}

// asking is a world whose tool asks, and is approved each time.
func asking() *world {
	w := newWorld(tool.Spec{Execution: tool.ExecAskAlways})
	w.session.Profile = "strict"
	for range 9 {
		w.answers = append(w.answers, tool.Approval{Approved: true})
	}
	return w
}

// TestAnAnswerIsJudgedByWhatIsInForceThen: the session and the configuration may
// change while a person thinks. Nothing that was widened is covered by the answer,
// and nothing that was tightened is evaded by it.
func TestAnAnswerIsJudgedByWhatIsInForceThen(t *testing.T) {
	denied := guard.Settings{DeniedPaths: []string{"/d"}}
	for _, tt := range []struct {
		name  string
		act   func(*world, *Pipeline)
		asked int
		code  string // of the error, "" where the call runs
		check func(*world) bool
	}{
		{
			name: "nothing changes", act: func(*world, *Pipeline) {}, asked: 1,
			check: func(w *world) bool { return w.backend.profile == "strict" },
		},
		{
			name: "a wider profile", act: func(w *world, _ *Pipeline) { w.session.Profile = "light" }, asked: 2,
			check: func(w *world) bool { return w.backend.profile == "light" },
		},
		{
			name: "another mode", act: func(w *world, _ *Pipeline) { w.session.Mode = "default" }, asked: 2,
			check: func(*world) bool { return true },
		},
		{
			name: "a mode that never asks", act: func(w *world, _ *Pipeline) { w.session.Mode = "dontAsk" }, asked: 1,
			code: "policy_denied",
		},
		{
			name: "another directory", act: func(w *world, _ *Pipeline) { w.session.Dir = "/w/sub" }, asked: 2,
			check: func(*world) bool { return true },
		},
		{
			name:  "tighter settings of the session",
			act:   func(w *world, _ *Pipeline) { w.session.Sandbox = &denied },
			asked: 2,
			check: func(w *world) bool { return len(w.backend.settings.DeniedPaths) == 1 },
		},
		{
			name: "tighter settings of the daemon", act: func(_ *world, p *Pipeline) {
				o := p.Options
				o.Workspaces = tool.Workspace{Roots: []string{"/w"}, Settings: denied}
				p.Next(o)
			}, asked: 2,
			check: func(w *world) bool { return len(w.backend.settings.DeniedPaths) == 1 },
		},
		{
			name:  "the tool is taken out",
			act:   func(w *world, _ *Pipeline) { w.session.Tools = map[string]bool{"Echo": false} },
			asked: 1, code: "tool_disabled",
		},
		{
			name: "the session is deleted", act: func(w *world, _ *Pipeline) { w.session.ID = "gone" }, asked: 1,
			code: "session_not_found",
		},
		{
			name: "the project is taken back", act: func(w *world, _ *Pipeline) {
				w.closed = &tool.Error{Code: "cwd_outside_workspace", Msg: "not any more"}
			}, asked: 1,
			code: "cwd_outside_workspace",
		},
		{
			name: "a policy denies", act: func(w *world, _ *Pipeline) {
				w.decide = func(*tool.Call) tool.Decision {
					return deny(tool.ByRule, tool.Reason{Rule: "new", Message: "no"})
				}
			}, asked: 1, code: "policy_denied",
		},
		{
			name: "another hook lets it run", act: func(w *world, _ *Pipeline) { w.hooks(tool.Advice{}) }, asked: 1,
			check: func(*world) bool { return true },
		},
		{
			name: "another hook blocks", act: func(w *world, _ *Pipeline) { w.hooks(tool.Advice{Block: true, Reason: "no"}) },
			asked: 1, code: "hook_blocked",
		},
		{
			name: "another hook asks", act: func(w *world, _ *Pipeline) { w.hooks(tool.Advice{Ask: true, Reason: "sure?"}) },
			asked: 2,
			check: func(w *world) bool { return strings.Contains(fmt.Sprint(w.shown), "sure?") },
		},
		{
			name: "another hook rewrites", act: func(w *world, _ *Pipeline) {
				w.hooks(tool.Advice{Args: json.RawMessage(`{"text":"other"}`)})
			}, asked: 2,
			check: func(w *world) bool { return strings.Contains(string(w.echo.in.Args), "other") },
		},
		{
			name: "the same hooks would block now", act: func(w *world, _ *Pipeline) { w.advice = tool.Advice{Block: true} },
			asked: 1,
			check: func(*world) bool { return true },
		},
		{
			name: "another revision of the policies", act: func(w *world, _ *Pipeline) {
				w.decide = func(*tool.Call) tool.Decision { return tool.Decision{Verdict: tool.Allow, Revision: "r2"} }
			}, asked: 2,
			check: func(*world) bool { return true },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := asking()
			p := w.pipeline()
			q := &meanwhile{world: w, act: func() { tt.act(w, p) }}
			p.Approvals = q
			r := p.Do(t.Context(), w.request(hello))
			if len(w.asked) != tt.asked {
				t.Errorf("asked %d times, want %d", len(w.asked), tt.asked)
			}
			if tt.code != "" {
				if r.Error == nil || r.Error.Code != tt.code || w.ran() {
					t.Errorf("got %s %+v, ran %v, want %s", r.Status, r.Error, w.ran(), tt.code)
				}
				return
			}
			if r.Status != tool.StatusSuccess || !tt.check(w) {
				t.Errorf("got %s %+v in the box %q with %+v", r.Status, r.Error, w.backend.profile, w.backend.settings)
			}
		})
	}
}

// TestTheRightsOfACallBelongToItsQuestion: one account may be several uids.
func TestTheRightsOfACallBelongToItsQuestion(t *testing.T) {
	w := asking()
	p := w.pipeline()
	for _, rights := range []string{"uid 1, gid 1", "uid 2, gid 1", "uid 1, gid 2", "uid 1, gid 1"} {
		req := w.request(hello)
		req.RunsAs = rights
		if r := p.Do(t.Context(), req); r.Status != tool.StatusSuccess {
			t.Fatalf("got %s %+v", r.Status, r.Error)
		}
	}
	d := w.asked
	if d[0] != d[3] || d[0] == d[1] || d[0] == d[2] || d[1] == d[2] {
		t.Errorf("got the digests %q, want one for each rights", d)
	}
}

// TestTheSessionOfACallBelongsToItsQuestion: another one of the same id is another one.
func TestTheSessionOfACallBelongsToItsQuestion(t *testing.T) {
	for name, change := range map[string]func(*tool.Session){
		"the same id, made later":    func(s *tool.Session) { s.Created = s.Created.Add(time.Nanosecond) },
		"another mode":               func(s *tool.Session) { s.Mode = "default" },
		"another profile":            func(s *tool.Session) { s.Profile = "light" },
		"another directory":          func(s *tool.Session) { s.Dir = "/w/sub" },
		"another sandbox of its own": func(s *tool.Session) { s.Sandbox = &guard.Settings{DeniedPaths: []string{"/d"}} },
	} {
		w := asking()
		p := w.pipeline()
		for range 2 {
			if r := p.Do(t.Context(), w.request(hello)); r.Status != tool.StatusSuccess {
				t.Fatalf("%s: got %s %+v", name, r.Status, r.Error)
			}
		}
		change(&w.session)
		if r := p.Do(t.Context(), w.request(hello)); r.Status != tool.StatusSuccess {
			t.Fatalf("%s: got %s %+v", name, r.Status, r.Error)
		}
		if d := w.asked; d[0] != d[1] || d[0] == d[2] {
			t.Errorf("%s: got the digests %q, want the first two equal and the third another one", name, d)
		}
	}
}

// TestAProgramOfTheWorkspaceIsBound: what a command executes by its path is part of
// the answer, though no argument of it is a file.
func TestAProgramOfTheWorkspaceIsBound(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name, command string
		file          string // that changes meanwhile
		asked         int
	}{
		{"the program itself", "./deploy --now", "deploy", 2},
		{"by another directory", "cd sub && ../deploy", "deploy", 2},
		{"behind another command", "true && " + dir + "/deploy", "deploy", 2},
		{"a file that it does not name", "./deploy --now", "other", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"deploy", "other"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("as shown"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			script, err := shellparse.Parse(tt.command, shellparse.Options{Dir: dir, Home: "/home"})
			if err != nil {
				t.Fatal(err)
			}
			w := asking()
			w.session.Dir = dir
			w.echo.uses.Script = script
			p := w.pipeline()
			p.Approvals = &meanwhile{world: w, act: func() {
				if err := os.WriteFile(filepath.Join(dir, tt.file), []byte("something else"), 0o700); err != nil {
					t.Error(err)
				}
			}}
			if r := p.Do(t.Context(), w.request(hello)); r.Status != tool.StatusSuccess || len(w.asked) != tt.asked {
				t.Errorf("got %s, asked %d times, want %d", r.Status, len(w.asked), tt.asked)
			}
		})
	}
}

// TestALargeFileIsBoundByItsChangeTime: what is too large to hash counts as changed
// when the kernel says so, though its size and its own times are as before.
func TestALargeFileIsBoundByItsChangeTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(sandbox.MaxBound + 1); err != nil {
		t.Fatal(err)
	}
	before, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		act   func()
		asked int
	}{
		{"at rest", func() {}, 1},
		{"written to", func() {
			for was := changed(t, f); changed(t, f) == was; { // that clock is coarse
				if _, err := f.WriteAt([]byte("x"), 7); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(file, before.ModTime(), before.ModTime()); err != nil {
					t.Fatal(err)
				}
			}
		}, 2},
	} {
		w := asking()
		w.echo.uses.Paths = []guard.PathUse{{Raw: file, Path: file, Op: guard.Read}}
		p := w.pipeline()
		p.Approvals = &meanwhile{world: w, act: tt.act}
		if r := p.Do(t.Context(), w.request(hello)); r.Status != tool.StatusSuccess || len(w.asked) != tt.asked {
			t.Errorf("%s: got %s, asked %d times, want %d", tt.name, r.Status, len(w.asked), tt.asked)
		}
	}
}

// changed is when the kernel last saw a change of the file.
func changed(t *testing.T, f *os.File) unix.Timespec {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ctim
}

// TestObligationsTightenTheBoxAndTheFloor: the conditions of a yes hold for what
// runs, and for what the floor says of it.
func TestObligationsTightenTheBoxAndTheFloor(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.settings.Limits.WallSeconds, w.settings.Network.AllowLocalBinding = 100, true
	w.decide = func(*tool.Call) tool.Decision {
		return tool.Decision{Verdict: tool.Allow, Obligations: guard.Obligations{NoNetwork: true, WallSeconds: 3}}
	}
	if r := w.do(t, hello); r.Status != tool.StatusSuccess {
		t.Fatalf("got %+v", r)
	}
	if s := w.backend.settings; s.Limits.WallSeconds != 3 || s.Network.AllowLocalBinding {
		t.Errorf("the box has %+v", s)
	}
	w = newWorld(tool.Spec{})
	w.echo.uses.Paths = []guard.PathUse{{Raw: "/w/x", Path: "/w/x", Op: guard.Write}}
	w.decide = func(*tool.Call) tool.Decision {
		return tool.Decision{Verdict: tool.Allow, Obligations: guard.Obligations{ReadOnly: true}}
	}
	if r := w.do(t, hello); r.Decision == nil || r.Decision.By != tool.ByFloor || w.ran() {
		t.Errorf("a write under read_only: got %+v, ran %v", r.Decision, w.ran())
	}
}

// hooks puts other hooks in force.
func (w *world) hooks(a tool.Advice) { w.advice, w.basis = a, w.basis+" another" }

// A hook that rewrites sees after the wait what it saw before it, or what the person made of that.
func TestHooksThatAreAskedAgainSeeTheSameArguments(t *testing.T) {
	for _, tt := range []struct{ name, edit, want string }{
		{"as they were sent", "", `{"text":"hello!"}`},
		{"as a person edited them", `{"text":"bye"}`, `{"text":"bye!"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := asking()
			w.hook = func(args json.RawMessage) tool.Advice {
				var a struct{ Text string }
				if err := json.Unmarshal(args, &a); err != nil {
					t.Error(err)
				}
				return tool.Advice{Args: json.RawMessage(fmt.Sprintf("{\"text\":%q}", a.Text+"!"))}
			}
			if tt.edit != "" {
				w.answers[0].Args = json.RawMessage(tt.edit)
			}
			p := w.pipeline()
			p.Approvals = &meanwhile{world: w, act: func() { w.basis = "another" }}
			r := p.Do(t.Context(), w.request(`{"text":"hello"}`))
			if r.Status != tool.StatusSuccess || string(w.echo.in.Args) != tt.want {
				t.Errorf("got %s %+v, ran with %s, want %s", r.Status, r.Error, w.echo.in.Args, tt.want)
			}
		})
	}
}
