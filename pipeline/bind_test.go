package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// workshop is a directory with files, and a world whose tool runs commands in it.
func workshop(t *testing.T, files map[string]string) (dir string, command func(string) *world) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		put(t, dir, name, strings.ReplaceAll(text, "DIR", dir))
	}
	return dir, func(command string) *world {
		script, err := shellparse.Parse(command, shellparse.Options{Dir: dir, Home: "/home/x"})
		if err != nil {
			t.Fatal(err)
		}
		w := asking()
		w.session.Dir, w.settings.AllowedWritePaths = dir, []string{dir}
		w.echo.uses = (*guard.Rules)(nil).ScriptUses(script, dir)
		return w
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestWhatAnAnswerBinds: the question says which files the call gets as they are now, and
// what it executes or reads beside them.
func TestWhatAnAnswerBinds(t *testing.T) {
	dir, command := workshop(t, map[string]string{
		"run.sh": "#!/bin/sh\necho\n", "own.sh": "#!DIR/interpreter -x\n", "interpreter": "\x7fELF", "x": "", "data": "x",
		"env.py": "#!/usr/bin/env mine\n", "mine": "\x7fELF", "nested.sh": "#!DIR/run.sh\n", "rel.sh": "#!bin/sh\n",
		"Makefile": "all:\n", "self.py": "#!/usr/bin/env self\n", "venv.py": "#!DIR//link -I\n",
		"split.py": "#!/usr/bin/env -S mine -u\n", "odd.py": "#!/usr/bin/env -i mine\n",
	})
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "second"} {
		if err := os.Symlink("/bin/sh", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "x"), sandbox.MaxBound+1); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		command string
		change  func(*world, *tool.Request)
		bound   []string
		not     []string // the beginnings
	}{
		{command: "true"},
		{command: "./run.sh", bound: []string{"run.sh"}, not: []string{"what DIR/run.sh starts or reads by itself"}},
		{
			command: "./own.sh", bound: []string{"interpreter", "own.sh"},
			not: []string{"what DIR/interpreter, DIR/own.sh starts"},
		},
		{
			command: "./env.py", bound: []string{"-none/mine", "mine", "env.py"},
			not: []string{"what DIR/mine, DIR/env.py starts"},
		},
		{
			command: "./split.py", bound: []string{"-none/mine", "mine", "split.py"},
			not: []string{"what DIR/mine, DIR/split.py starts"},
		},
		{
			command: "./odd.py", bound: []string{"odd.py"},
			not: []string{`DIR/odd.py: what env starts by "-i mine"`, "what DIR/odd.py starts"},
		},
		{command: "self", bound: []string{"self.py"}, not: []string{"what self starts", "what DIR/self.py starts"}},
		// Nobody can change the program itself, and others can change the link to it.
		{command: "./link -c :", bound: []string{sh + "=link"}, not: []string{"what " + sh + " starts"}},
		{
			command: "./venv.py; ./second", bound: []string{sh + "=link=second", "venv.py"},
			not: []string{"what " + sh + ", DIR/venv.py starts"},
		},
		{
			command: "late", bound: []string{"mine"},
			not: []string{"what late starts", "DIR/data, which would come first if it could be", "what DIR/mine starts"},
		},
		{
			command: "./nested.sh", bound: nil,
			not: []string{"DIR/nested.sh: its interpreter DIR/run.sh is a script itself"},
		},
		{command: "./rel.sh", bound: nil, not: []string{"DIR/rel.sh: its interpreter bin/sh is not known"}},
		{command: "./x", bound: nil, not: []string{"DIR/x, which is larger than 32 MiB"}},
		{command: "./gone.sh", bound: nil, not: []string{"DIR/gone.sh, which is not there now"}},
		{command: "cat data /etc/passwd DIR", bound: nil, not: []string{"what it reads as data: DIR/data"}},
		{
			command: "make", bound: []string{"Makefile", "-GNUmakefile", "-makefile"},
			not: []string{"what DIR/Makefile starts"},
		},
		{
			command: "./run.sh", change: func(w *world, _ *tool.Request) { w.backend.binds = errors.New("no listener") },
			not: []string{"DIR/run.sh: no listener"},
		},
		{
			command: "cat data", change: func(w *world, _ *tool.Request) { w.backend.binds = errors.New("no listener") },
			not: []string{"what it reads as data"},
		},
		{
			command: "./run.sh", change: func(_ *world, r *tool.Request) { r.DryRun = true },
			not: []string{"anything: another program runs this call"},
		},
		{
			command: "./run.sh", change: func(_ *world, r *tool.Request) { r.DryRun, r.Lease = true, true },
			bound: []string{"run.sh"}, not: []string{"what DIR/run.sh starts"},
		},
	} {
		t.Run(tt.command, func(t *testing.T) {
			w := command(strings.ReplaceAll(tt.command, "DIR", dir))
			w.backend.path = map[string]string{
				"mine": dir + "/none/mine:" + dir + "/mine", "self": dir + "/self.py", "late": dir + "/data:" + dir + "/mine",
				"make": "/no/such/make:/usr/bin/make", "cat": "/bin/cat",
			}
			req := w.request(hello)
			if tt.change != nil {
				tt.change(w, &req)
			}
			c := tool.NewCall(req)
			p := w.pipeline()
			if err := p.again(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			var bound []string
			for _, f := range c.Binding.Files {
				if f.Absent {
					bound = append(bound, "-"+strings.TrimPrefix(f.Path, dir+"/"))
					continue
				}
				bound = append(bound, strings.ReplaceAll(strings.Join(f.Names, "="), dir+"/", ""))
				text, err := os.ReadFile(f.Path)
				if sum := fmt.Sprintf("%x", sha256.Sum256(text)); err != nil || f.Sum != sum || f.Bytes != int64(len(text)) {
					t.Errorf("%s is bound as %s", f.Path, f.Sum)
				}
			}
			if fmt.Sprint(bound) != fmt.Sprint(tt.bound) {
				t.Errorf("bound %v, want %v", bound, tt.bound)
			}
			if len(c.Binding.Not) != len(tt.not) {
				t.Fatalf("not bound %q, want %q", c.Binding.Not, tt.not)
			}
			for i, want := range tt.not {
				if !strings.HasPrefix(c.Binding.Not[i], strings.ReplaceAll(want, "DIR", dir)) {
					t.Errorf("not bound %q, want %q", c.Binding.Not[i], want)
				}
			}
		})
	}
}

// TestAnApprovedCallGetsWhatWasApproved: its programs are started with the content, and not
// at all if that is not there any more. A call that nobody was asked about has nothing bound.
func TestAnApprovedCallGetsWhatWasApproved(t *testing.T) {
	for _, tt := range []struct {
		name  string
		asks  bool
		late  string // the content of the script after the last judgement
		bound int
		code  string
	}{
		{"approved", true, "", 1, ""},
		{"nobody was asked", false, "", 0, ""},
		{"changed at the last moment", true, "#!/bin/sh\necho evil\n", 0, "approval_stale"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, command := workshop(t, map[string]string{"run.sh": "#!/bin/sh\necho good\n"})
			w := command("./run.sh")
			if !tt.asks {
				w.echo.spec.Execution = tool.ExecAuto
			}
			var started *sandbox.Spec
			w.echo.start = func(box sandbox.Box) {
				_, err := box.Start(t.Context(), sandbox.Spec{Argv: []string{"x"}})
				started = w.backend.started
				if err == nil || started == nil {
					t.Errorf("start: %v", err)
				}
			}
			p := w.pipeline()
			p.Record = lateWriter{w, func() {
				if tt.late != "" {
					put(t, dir, "run.sh", tt.late)
				}
			}}
			r := p.Do(t.Context(), w.request(hello))
			code := ""
			if r.Error != nil {
				code = r.Error.Code
			}
			if code != tt.code {
				t.Fatalf("got %s %+v, want %q", r.Status, r.Error, tt.code)
			}
			if tt.code == "" && len(started.Bound) != tt.bound {
				t.Errorf("started with %+v", started.Bound)
			}
			if p.running.bound != 0 {
				t.Errorf("%d bytes are reserved still", p.running.bound)
			}
		})
	}
}

// lateWriter does something between the judgement and the run.
type lateWriter struct {
	*world
	act func()
}

func (l lateWriter) Begin(ctx context.Context, c *tool.Call) error {
	l.act()
	return l.world.Begin(ctx, c)
}

// TestBoundFilesAreLimited: the copies of all calls together are bounded.
func TestBoundFilesAreLimited(t *testing.T) {
	var r running
	if !r.reserve(256<<20) || r.reserve(1) {
		t.Error("more is reserved than there is")
	}
	r.reserve(-256 << 20)
	_, _, err := r.bind(t.Context(), box{}, []sandbox.Approved{{Path: "/x", Bytes: maxBound + 1}})
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "too_much_bound" || r.bound != 0 {
		t.Errorf("got %v", err)
	}
}

// TestWhatIsBoundOfACallIsLimited: what goes beyond is named.
func TestWhatIsBoundOfACallIsLimited(t *testing.T) {
	files, line := map[string]string{}, "true"
	for i := range sandbox.MaxBoundFiles + 2 {
		files[fmt.Sprint("run", i)] = "#!/bin/sh\n"
		line += fmt.Sprint("; ./run", i)
	}
	dir, command := workshop(t, files)
	w := command(line + "; far")
	w.backend.path = map[string]string{"far": "/bin/sh"}
	for i := range sandbox.MaxAbsent + 4 {
		w.backend.path["far"] = fmt.Sprint(dir, "/", i, "/far:") + w.backend.path["far"]
	}
	c := tool.NewCall(w.request(hello))
	if err := w.pipeline().again(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	present, absent, more, before := 0, 0, 0, 0
	for _, f := range c.Binding.Files {
		if f.Absent {
			absent++
		} else {
			present++
		}
	}
	for _, text := range c.Binding.Not {
		if strings.Contains(text, "too much is bound") {
			more++
		}
		if strings.Contains(text, "would come first if it appeared") {
			before++
		}
	}
	if present != sandbox.MaxBoundFiles || absent != sandbox.MaxAbsent || more != 2+before || before != 4 {
		t.Errorf("bound %d files and %d absent ones, not %d, of them %d absent ones", present, absent, more, before)
	}
}

// TestAnEditBindsADigestOfItsOwn: it is judged when it is submitted. It binds what the
// question showed, and nothing that came since.
func TestAnEditBindsADigestOfItsOwn(t *testing.T) {
	other := json.RawMessage(`{"text":"edited"}`)
	for _, tt := range []struct {
		name      string
		meanwhile func(t *testing.T, w *world, dir string) // before it is submitted
		after     func(t *testing.T, w *world, dir string) // it was submitted
		asked     int
		denied    bool
	}{
		{name: "nothing changes", asked: 1},
		{
			name: "a file changed before", asked: 2,
			meanwhile: func(t *testing.T, _ *world, dir string) { put(t, dir, "run.sh", "evil") },
		},
		{
			name: "a file changes after", asked: 2,
			after: func(t *testing.T, _ *world, dir string) { put(t, dir, "run.sh", "evil") },
		},
		{
			name: "a file changed while it was judged, and again after", asked: 2,
			meanwhile: func(t *testing.T, w *world, dir string) {
				put(t, dir, "run.sh", "evil")
				n := 0
				w.decide = func(*tool.Call) tool.Decision {
					if n++; n == 2 { // the arguments that the question showed
						put(t, dir, "run.sh", "good")
					}
					return tool.Decision{Verdict: tool.Allow, Revision: "r1"}
				}
			},
			after: func(t *testing.T, w *world, dir string) {
				w.decide = func(*tool.Call) tool.Decision { return tool.Decision{Verdict: tool.Allow, Revision: "r1"} }
				put(t, dir, "run.sh", "evil")
			},
		},
		{
			name: "the mode changed before", asked: 2,
			meanwhile: func(_ *testing.T, w *world, _ string) { w.session.Mode = "plan" },
		},
		{
			name: "the mode changes after", asked: 2,
			after: func(_ *testing.T, w *world, _ string) { w.session.Mode = "plan" },
		},
		{
			name: "it would be denied", denied: true,
			meanwhile: func(_ *testing.T, w *world, _ string) {
				w.decide = func(*tool.Call) tool.Decision { return deny(tool.ByRule, tool.Reason{Rule: "r", Message: "no"}) }
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, command := workshop(t, map[string]string{"run.sh": "good"})
			w := command("./run.sh")
			w.answers[0].Args = other
			p := w.pipeline()
			w.submit = func(e Edit) (string, error) {
				if tt.meanwhile != nil {
					tt.meanwhile(t, w, dir)
				}
				digest, err := p.Edited(t.Context(), e)
				if (err != nil) != tt.denied {
					t.Errorf("the person is told %v", err)
				}
				if tt.after != nil {
					tt.after(t, w, dir)
				}
				return digest, err
			}
			r := p.Do(t.Context(), w.request(hello))
			if tt.denied {
				if w.ran() {
					t.Error("it ran")
				}
				return
			}
			if r.Status != tool.StatusSuccess || w.echo.got != "edited" || len(w.asked) != tt.asked {
				t.Errorf("got %s %+v, %q, asked %d times, want %d", r.Status, r.Error, w.echo.got, len(w.asked), tt.asked)
			}
		})
	}
}

// An edit is judged before anything runs by it, and the call that waits is counted already.
func TestAnEditIsNoCallOfItsOwn(t *testing.T) {
	_, command := workshop(t, map[string]string{"run.sh": "good"})
	w := command("./run.sh")
	w.answers[0].Args = json.RawMessage(`{"text": "edited"}`)
	calls := map[string]bool{}
	decide := w.decide
	w.decide = func(c *tool.Call) tool.Decision {
		if !c.Request.Hypothetical {
			calls[c.ID] = true
		}
		return decide(c)
	}
	w.pipeline().Do(t.Context(), w.request(hello))
	if len(calls) != 1 {
		t.Errorf("%d calls are counted, want 1", len(calls))
	}
}

// TestWhatOtherWorkspacesMayChangeIsNotFixed: a call of another session may change it, though
// this one may not.
func TestWhatOtherWorkspacesMayChangeIsNotFixed(t *testing.T) {
	needs.Root(t, "to own the files of the system")
	w := newWorld(tool.Spec{})
	w.settings.AllowedWritePaths = []string{"/w"}
	workspace := tool.Workspace{Roots: []string{"/w"}, Settings: w.settings}
	b := &binder{p: w.pipeline(), c: &tool.Call{Target: tool.Target{Workspace: workspace}}}
	if !b.fixed("/usr/bin/env") {
		t.Error("a file of the system is not fixed")
	}
	w.others = []string{"/usr"}
	if b.fixed("/usr/bin/env") {
		t.Error("a file of another workspace is fixed")
	}
}

// A line with thousands of commands is looked through in the turn of its account at a processor.
func TestWhatACallExecutesIsLookedForInTurn(t *testing.T) {
	_, command := workshop(t, nil)
	synctest.Test(t, func(t *testing.T) {
		w := command("true")
		c := tool.NewCall(w.request(hello))
		p := w.pipeline()
		hold, err := budget.New(budget.Limits{Bytes: 256 << 20, Processors: 1}).Request("a")
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Release()
		ctx := budget.With(t.Context(), hold)
		if err := p.again(ctx, c); err != nil {
			t.Fatal(err)
		}
		end := hold.Compute(ctx)
		done := make(chan error, 1)
		go func() { done <- p.bind(ctx, c) }()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("it did not wait for the turn")
		}
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
		hold.Compute(ctx)() // nothing has kept it
	})
}
