package pipeline

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/shellparse"
)

// TestAFileOfTheSessionIsNoLoss: what a call was let make may be emptied by a later call of the same session, and by no
// other, and not what a person has changed since; what a call has only moved, or was only asked about, is as before.
func TestAFileOfTheSessionIsNoLoss(t *testing.T) {
	for _, tt := range []struct {
		name    string
		before  string // the call that makes the file x
		change  func(*world, *tool.Request)
		then    func(*world)
		losses  int  // both commands would lose it
		nothing bool // the call makes no file
		links   bool // it links x to work
		old     bool // it puts back what was there before
	}{
		{name: "made by this session", before: "echo > x"},
		{name: "made by another session", before: "echo > x", then: func(w *world) { w.session.ID = "other" }, losses: 2},
		{name: "a person wrote into it since", before: "echo > x", then: func(w *world) {
			put(t, w.session.Dir, "x", "a person's words")
		}, losses: 2},
		{name: "the call made nothing, and a person did", before: "echo > x", nothing: true, losses: 2},
		{name: "another name of a person's file", before: "ln work x", links: true, losses: 2},
		{name: "there before", before: "echo > y", losses: 2},
		{name: "moved there", before: "mv work x", losses: 2},
		{name: "restored", before: "echo > x", old: true, losses: 2},
		{name: "denied", before: "echo > x", change: func(w *world, _ *tool.Request) {
			w.decide = func(*tool.Call) tool.Decision { return tool.Decision{} }
		}, losses: 2},
		{name: "only asked about", before: "echo > x", change: func(_ *world, r *tool.Request) {
			r.DryRun = true
		}, losses: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			put(t, dir, "work", "a person's")
			w := newWorld(tool.Spec{Class: tool.ClassExec, Restores: tt.old})
			w.session.Dir, w.settings.AllowedWritePaths = dir, []string{dir}
			w.echo.uses = usesIn(t, dir, tt.before)
			p, req := w.pipeline(), w.request(`{"text":"x"}`)
			if tt.change != nil {
				tt.change(w, &req)
			}
			if !tt.nothing {
				w.echo.run = func() error {
					if tt.links {
						return os.Link(filepath.Join(dir, "work"), filepath.Join(dir, "x"))
					}
					put(t, dir, "x", "text")
					return nil
				}
			}
			p.Do(t.Context(), req)
			w.echo.run = nil
			if _, err := os.Lstat(filepath.Join(dir, "x")); err != nil {
				put(t, dir, "x", "a person's")
			}
			w.echo.uses = usesIn(t, dir, "echo > x; rm x")
			if tt.then != nil {
				tt.then(w)
			}
			losses := -1
			w.decide = func(c *tool.Call) tool.Decision {
				losses = len(c.Facts.Uses.Losses)
				for _, d := range c.Facts.Uses.Deletes {
					if d.Unsaved != (losses > 0) {
						t.Errorf("%s is unsaved: %v", d.Path, d.Unsaved)
					}
				}
				return tool.Decision{Verdict: tool.Allow}
			}
			req = w.request(`{"text":"x"}`)
			req.Session = w.session.ID
			p.Next(p.Options).Do(t.Context(), req)
			if losses != tt.losses {
				t.Errorf("%d losses, want %d", losses, tt.losses)
			}
		})
	}
}

// TestAHeldCallMakesNothingBeforeItBegins: what a person writes between the judgement of a call that a client runs and
// its beginning is the person's, also if the call was to make or delete a file of that name.
func TestAHeldCallMakesNothingBeforeItBegins(t *testing.T) {
	for _, line := range []string{"echo > x", "rm -f x"} {
		t.Run(line, func(t *testing.T) {
			dir, w := madeWorld(t)
			p := w.leasing()
			w.echo.uses = usesIn(t, dir, line)
			req := w.request(hello)
			req.Lease = true
			c := p.Decide(t.Context(), req)
			put(t, dir, "x", "a person's")
			w.echo.uses = usesIn(t, dir, line)
			losses := w.losses()
			if _, err := p.Lease(t.Context(), "a", "", c.ID, exited(p, nil), nil); err != nil {
				t.Fatal(err)
			}
			if *losses != 1 {
				t.Errorf("%d losses, want 1", *losses)
			}
		})
	}
}

// TestWhatAnotherProgramWasToDeleteIsNotMade: its end is not known, and a file that a person makes later is the person's.
func TestWhatAnotherProgramWasToDeleteIsNotMade(t *testing.T) {
	dir, w := madeWorld(t)
	p := w.pipeline()
	w.echo.uses = usesIn(t, dir, "rm -f x")
	p.Decide(t.Context(), w.request(hello))
	put(t, dir, "x", "a person's")
	w.echo.uses = usesIn(t, dir, "rm -f x")
	losses := w.losses()
	p.Do(t.Context(), w.request(hello))
	if *losses != 1 {
		t.Errorf("%d losses, want 1", *losses)
	}
}

func madeWorld(t *testing.T) (dir string, w *world) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w = newWorld(tool.Spec{Class: tool.ClassExec})
	w.session.Dir, w.settings.AllowedWritePaths = dir, []string{dir}
	return dir, w
}

// losses is what the next call that is judged would lose; it is allowed.
func (w *world) losses() *int {
	n := -1
	w.decide = func(c *tool.Call) tool.Decision {
		n = len(c.Facts.Uses.Losses)
		return tool.Decision{Verdict: tool.Allow}
	}
	return &n
}

func usesIn(t *testing.T, dir, line string) guard.Uses {
	t.Helper()
	s, err := shellparse.Parse(line, shellparse.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return (*guard.Rules)(nil).ScriptUses(s, dir)
}

// TestAFileThatWasReadIsNoLossForWrite: who writes a file anew, not by a command, and has read it as it is, knows what
// goes. The session, the version and the path count.
func TestAFileThatWasReadIsNoLossForWrite(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before string // the call before; it leaves x in place
		dryRun bool   // another program runs it, and writes x then
		then   func(t *testing.T, w *world, dir string)
		bash   bool // a command loses the file
		losses int
	}{
		{name: "read", before: "cat x"},
		{name: "read, by another program", before: "cat x", dryRun: true},
		{name: "edited", before: "sed -i s/a/b/ x"},
		{name: "edited by another program", before: "sed -i s/a/b/ x", dryRun: true},
		{name: "not read", before: "cat y", losses: 1},
		{name: "only looked at", before: "test -f x", losses: 1},
		{name: "a command empties it", before: "cat x", bash: true, losses: 1},
		{name: "read in another session", before: "cat x", losses: 1, then: func(_ *testing.T, w *world, _ string) {
			w.session.ID = "other"
		}},
		{name: "a person wrote into it since", before: "cat x", losses: 1, then: func(t *testing.T, _ *world, dir string) {
			put(t, dir, "x", "other words of a person")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, w := madeWorld(t)
			put(t, dir, "x", "a person's")
			p := w.pipeline()
			w.echo.uses = usesIn(t, dir, tt.before)
			if tt.dryRun {
				p.Decide(t.Context(), w.request(hello))
			} else {
				p.Do(t.Context(), w.request(hello))
			}
			if tt.dryRun && tt.before != "cat x" {
				put(t, dir, "x", "edited")
			}
			if tt.then != nil {
				tt.then(t, w, dir)
			}
			x := filepath.Join(dir, "x")
			w.echo.uses = guard.Uses{
				Paths:  []guard.PathUse{{Raw: "x", Path: x, Op: guard.Write}},
				Losses: []guard.Loss{{Use: 0, Path: x}},
			}
			if tt.bash {
				w.echo.uses = usesIn(t, dir, "echo > x")
			}
			losses := w.losses()
			req := w.request(hello)
			req.Session = w.session.ID
			p.Next(p.Options).Do(t.Context(), req)
			if *losses != tt.losses {
				t.Errorf("%d losses, want %d", *losses, tt.losses)
			}
		})
	}
}

// What is remembered is bounded, and the oldest session goes first. What was read is forgotten to make room.
func TestWhatSessionsMadeIsBounded(t *testing.T) {
	m := newMade()
	for i := range maxMadeSessions + 1 {
		m.of(string(rune('a' + i)))
	}
	if len(m.sessions) != maxMadeSessions || m.sessions["a"] != nil {
		t.Errorf("%d sessions, and the oldest is there: %v", len(m.sessions), m.sessions["a"] != nil)
	}
	dir, w := madeWorld(t)
	for i := range maxPaths + 1 {
		name := strconv.Itoa(i)
		put(t, dir, name, "x")
		path := filepath.Join(dir, name)
		w.echo.uses.Paths = append(w.echo.uses.Paths,
			guard.PathUse{Raw: name, Path: path, Op: guard.Read},
			guard.PathUse{Raw: name, Path: path + ".new", Op: guard.Write})
	}
	p := w.pipeline()
	p.Decide(t.Context(), w.request(hello))
	k := p.made.sessions[w.session.ID]
	if k == nil || len(k.made) != maxPaths || len(k.read) != 1 {
		t.Errorf("%+v paths of a session, want %d made and the last one read", k, maxPaths)
	}
}
