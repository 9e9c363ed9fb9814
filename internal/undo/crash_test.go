package undo

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// crashFiles is how many files the call of a crash test changes.
const crashFiles = 40

// crashContents are names and contents for world.write: some replace, some are new.
func crashContents(text string) (files []string) {
	for i := range crashFiles {
		files = append(files, fmt.Sprintf("d%d/e/f%d", i%4, i), strings.Repeat(text, i+1))
	}
	return files
}

// TestMain is also the process that the crash tests kill.
func TestMain(m *testing.M) {
	act, root, is := strings.Cut(os.Getenv("UNDO_CRASH"), ":")
	if !is {
		if err := flag.Set("rapid.checks", "30"); err != nil { // each opens a database several times
			panic(err)
		}
		os.Exit(m.Run())
	}
	w := openWorld(dying{}, root, defaults())
	fmt.Println("go")
	switch act {
	case "command":
		w.j.setConfig(*defaults())
		w.keep(context.Background(), w.newCommand("call"))
		w.person("f", "two")
		w.must(os.Remove(w.work + "/g"))
		fmt.Println("done")
		w.must(unix.Kill(os.Getpid(), unix.SIGKILL))
	case "commands":
		w.someCommands()
	case "write":
		w.write("call", crashContents("new")...)
	case "undo", "undo a command":
		w.undo("undo", "call")
	case "refuse":
		if _, _, err := (outcome{j: w.j, call: newTestCall(w, "call")}).Undo(context.Background()); err != nil {
			panic(err)
		}
	case "remove":
		w.call("call", func(ctx context.Context, b sandbox.Box) error {
			for i := 0; i < 2*crashFiles; i += 2 {
				if err := sandbox.Remove(ctx, b, w.use(crashContents("")[i])); err != nil {
					return err
				}
			}
			return nil
		})
	}
	fmt.Println("done")
	os.Exit(0)
}

// dying is a test that has no other output.
type dying struct{}

func (dying) Helper() {}
func (dying) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}
func (d dying) Errorf(format string, args ...any) { d.Fatalf(format, args...) }

// killed runs an act and kills it after a part of the time that it takes.
func (w *world) killed(t *testing.T, act string, part float64, whole time.Duration) (ended bool, took time.Duration) {
	t.Helper()
	w.must(w.db.Close())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "UNDO_CRASH="+act+":"+w.root)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	w.must(err)
	w.must(cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Scan()
	start := time.Now()
	if whole > 0 {
		time.AfterFunc(time.Duration(part*float64(whole)), func() { cmd.Process.Kill() })
	}
	ended = lines.Scan()
	took = time.Since(start)
	_ = cmd.Wait() // it was killed
	return ended, took
}

// commandToCrash is a command that wrecks a tree of files, links and directories of several modes. It
// returns the tree before.
func (w *world) commandToCrash() map[string]state {
	files := crashContents("old")
	for i := 0; i < len(files); i += 2 {
		w.must(os.MkdirAll(filepath.Dir(filepath.Join(w.work, files[i])), 0o755))
		w.person(files[i], files[i+1])
	}
	w.must(os.Symlink("f1", w.work+"/d1/link"))
	w.must(os.Mkdir(w.work+"/closed", 0o755))
	w.person("closed/f", "x")
	w.must(os.Chmod(w.work+"/closed", 0o500))
	w.must(unix.Lsetxattr(w.work+"/d2/e", "user.a", []byte("x"), 0))
	before := w.tree()
	w.j.setConfig(*defaults())
	w.command("call", func() {
		w.must(os.RemoveAll(w.work + "/d0"))
		w.must(os.Chmod(w.work+"/closed", 0o700))
		w.must(os.RemoveAll(w.work + "/closed"))
		w.must(os.Rename(w.work+"/d1", w.work+"/moved"))
		w.must(os.Chmod(w.work+"/d2/e", 0o700))
		w.must(unix.Lremovexattr(w.work+"/d2/e", "user.a"))
		w.must(os.RemoveAll(w.work + "/d3/e"))
		w.person("d3/e", "a file now")
		for i := range crashFiles {
			w.person(fmt.Sprintf("d2/e/f%d", i), "new")
		}
	})
	return before
}

// undoOf is the call that undid another one.
func (w *world) undoOf(id string) string {
	all, err := w.j.calls(context.Background(), `undoes = $1 ORDER BY n`, id)
	w.must(err)
	if len(all) != 1 {
		w.t.Fatalf("%d calls undo %s", len(all), id)
	}
	return all[0].ID
}

// A daemon that is killed at any moment of an undo has undone everything, or nothing, when it
// has started again; one that is killed while a call writes or removes files has each of them
// as it was before or after. Nothing else is left, and what was done can be undone.
func TestAKilledDaemonLeavesBeforeOrAfter(t *testing.T) {
	rounds, rnd := tier.Rounds(t, 5, 100), tier.Rand(t)
	for _, act := range []string{"write", "undo", "remove", "undo a command", "refuse"} {
		t.Run(act, func(t *testing.T) {
			whole, cut := time.Duration(0), 0
			for round := 0; cut < rounds && round < 10*rounds; round++ {
				w := openWorld(t, physicalDir(t), defaults())
				w.must(os.MkdirAll(w.work+"/d1/e", 0o755))
				w.person("d1/e/f1", "old")
				w.person("theirs", "x")
				if act == "remove" {
					for i, files := 0, crashContents("old"); i < len(files); i += 2 {
						w.must(os.MkdirAll(filepath.Dir(filepath.Join(w.work, files[i])), 0o755))
						w.person(files[i], files[i+1])
					}
				}
				before := w.tree()
				undoes := act != "write" && act != "remove"
				switch {
				case act == "undo":
					w.write("call", crashContents("new")...)
				case undoes:
					before = w.commandToCrash()
					closed := w.work + "/closed"
					t.Cleanup(func() { _ = os.Chmod(closed, 0o700) }) // who is not root could not remove it
				}
				after := w.tree()
				ended, took := w.killed(t, act, rnd.Float64(), whole)
				switch {
				case !ended:
					cut++
				case whole == 0 || took < whole:
					whole = took
				}
				w = openWorld(t, w.root, defaults())
				got := w.tree()
				for name := range got {
					if strings.Contains(name, ".sandboxd-") {
						t.Errorf("%s is left", name)
					}
				}
				switch {
				case undoes && !sameTree(got, before) && !sameTree(got, after):
					t.Errorf("the tree is neither as before the undo nor as after it: %d of %d paths", len(got), len(after))
				case undoes && sameTree(got, before):
					out := w.undo("again", w.undoOf("call"))
					if now := w.tree(); !sameTree(now, after) {
						t.Errorf("the undo cannot be undone: %v", out.Conflicts)
						for name, s := range after {
							if x := now[name]; !x.same(s) || x.Modified != s.Modified {
								t.Logf("%s: %+v, want %+v", name, x, s)
							}
						}
					}
				case !undoes:
					for name, s := range got {
						was, there := before[name]
						fresh := s.Type == isDir || strings.Trim(w.read(name), "new") == "" && len(w.read(name))%3 == 0
						if !(there && s.same(was)) && !fresh {
							t.Errorf("%s is %q", name, w.read(name))
						}
					}
					if c, err := w.j.call(t.Context(), "call"); err == nil {
						if !c.Settled {
							t.Error("the call is not settled")
						}
						if out := w.undo("undo", "call"); len(out.Conflicts) > 0 {
							t.Errorf("conflicts: %v", out.Conflicts)
						}
					}
					if !sameTree(w.tree(), before) {
						t.Errorf("what was done before the crash cannot be undone: %d of %d", len(w.tree()), len(before))
					}
				}
				w.must(w.db.Close())
			}
			if cut == 0 {
				t.Error("no process was killed before it had ended")
			}
		})
	}
}

// Where a file took the place of a directory, an undo removes the file and makes the directory. One
// that was killed between the two goes on.
func TestAnUndoThatWasKilledBetweenTwoKindsGoesOn(t *testing.T) {
	w := openWorld(t, physicalDir(t), defaults())
	w.must(os.MkdirAll(w.work+"/d/e", 0o755))
	w.person("d/e/f", "old")
	before := w.tree()
	w.command("call", func() {
		w.must(os.RemoveAll(w.work + "/d/e"))
		w.person("d/e", "a file now")
	})
	of := must(w.j.call(t.Context(), "call"))
	p := must(planOf(of, nil, false))
	c := newTestCall(w, "undo")
	c.Spec = undo{}.Spec()
	r := &recorder{j: w.j, call: c, config: w.j.settings(), undoes: of.ID, plan: encode(p)}
	ctx := sandbox.WithKeeper(context.WithValue(t.Context(), recorderKey{}, r), r)
	w.must(sandbox.Remove(ctx, bareBox{c.Request.User}, w.use("d/e")))
	w.must(w.db.Close())
	w = openWorld(t, w.root, defaults())
	defer w.close()
	if got := w.tree(); !sameTree(got, before) {
		t.Errorf("got %+v, want %+v", got, before)
	}
}

// A directory that was replaced or removed before the next daemon starts: what the call wrote elsewhere can be undone,
// and the answer names what was in the directory.
func TestADirectoryThatIsAnotherOneAfterACrash(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(w *world)
	}{
		{"it is gone", func(w *world) { w.must(os.RemoveAll(w.work + "/d")) }},
		{"it is a link", func(w *world) {
			w.must(os.Rename(w.work+"/d", w.work+"/moved"))
			w.must(os.Symlink("moved", w.work+"/d"))
		}},
	} {
		w := openWorld(t, physicalDir(t), defaults())
		w.must(os.MkdirAll(w.work+"/d/e", 0o755))
		w.person("d/e/f", "old")
		w.person("g", "old")
		ctx := w.keep(t.Context(), newTestCall(w, "call"))
		w.must(errors.Join(writeKept(ctx, w, "g", "new"), writeKept(ctx, w, "d/e/f", "new")))
		w.close()
		tt.change(w)
		w = openWorld(t, w.root, defaults())
		if c := must(w.j.call(t.Context(), "call")); !c.Settled {
			t.Errorf("%s: the call has not ended", tt.name)
		}
		out := w.undo("undo", "call")
		if len(out.Conflicts) != 1 || out.Conflicts[0].Path != "d/e/f" || w.read("g") != "old" {
			t.Errorf("%s: got %+v; g is %q", tt.name, out, w.read("g"))
		}
		w.close()
	}
}

// What a call made in a directory that was a link, or a file, is gone when that is there again: an undo that comes
// twice, or goes on after a crash, finds no conflict.
func TestAnUndoOfADirectoryThatWasALink(t *testing.T) {
	w := newWorld(t)
	w.must(os.Symlink("f", w.work+"/link"))
	w.person("f", "old")
	before := w.tree()
	w.command("call", func() {
		for _, name := range []string{"/link", "/f"} {
			w.must(errors.Join(os.Remove(w.work+name), os.Mkdir(w.work+name, 0o755)))
			w.person(name+"/new", "x")
		}
	})
	for _, by := range []string{"undo", "again"} {
		if out := w.undo(by, "call"); len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
			t.Errorf("%s: got %+v and %v", by, out, w.tree())
		}
	}
}
