package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/needs"
)

const (
	goodScript = "#!/bin/sh\necho good $0 $*\n"
	evilScript = "#!/bin/sh\necho evil\ntouch \"$(dirname \"$0\")/EVIL\"\n"
)

// sealed is a file with this content, bound to these names.
func sealed(t testing.TB, content string, names ...string) Bound {
	t.Helper()
	f, _, err := seal(strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return Bound{Names: names, Content: f}
}

func writeFile(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// runBound runs a program with bound files to its end, and returns what it printed.
func runBound(t testing.TB, box Box, dir string, files []Bound, argv ...string) (Exit, string, error) {
	t.Helper()
	var out bytes.Buffer
	p, err := box.Start(context.Background(), Spec{Argv: argv, Dir: dir, Stdout: &out, Bound: files})
	if err != nil {
		t.Fatalf("start %q: %v", argv, err)
	}
	e, err := p.Wait()
	return e, out.String(), err
}

func needBinding(t testing.TB, b Backend) {
	t.Helper()
	if err := b.Binds(); err != nil {
		needs.Missing(t, "this kernel cannot bind what runs: %v", err)
	}
}

// TestProgramsGetWhatWasApproved: whatever was put in the place of a file, and whichever way
// a program opens it, it gets the content that was bound.
func TestProgramsGetWhatWasApproved(t *testing.T) {
	everywhere(t, func(t *testing.T, b Backend, ws string) {
		needBinding(t, b)
		box := newBox(t, b, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		script := ws + "/sub/run.sh"
		for _, replaced := range []struct {
			name string
			act  func()
		}{
			{"as it was", func() { writeFile(t, script, goodScript) }},
			{"written", func() { writeFile(t, script, evilScript) }},
			{"a link", func() {
				writeFile(t, ws+"/evil", evilScript)
				done(t, os.Remove(script), os.Symlink("../evil", script))
			}},
			{"a hard link", func() {
				done(t, os.Remove(script), os.Link(ws+"/evil", script))
			}},
			{"another directory", func() {
				done(t, os.Rename(ws+"/sub", ws+"/old"))
				writeFile(t, script, evilScript)
			}},
		} {
			replaced.act()
			for _, way := range []string{
				"sub/run.sh a", "./sub/run.sh a", ws + "/sub/run.sh a", "cd sub; ./run.sh a", "cd sub; ../sub//run.sh a",
				"sh sub/run.sh a", ". sub/run.sh", "sh < sub/run.sh", "cat sub/run.sh", "exec sub/run.sh",
				"sh -c 'exec sub/run.sh'", "env sub/run.sh", "f() { sub/run.sh; }; f | cat", "(sub/run.sh & wait)",
			} {
				_, out, err := runBound(t, box, ws, []Bound{sealed(t, goodScript, script)}, "bash", "-c", way)
				if err != nil || !strings.Contains(out, "good") || strings.Contains(out, "evil") {
					t.Errorf("%s, %q: %v, printed %q", replaced.name, way, err, out)
				}
			}
			if _, err := os.Lstat(ws + "/sub/EVIL"); err == nil {
				t.Errorf("%s: the other file ran", replaced.name)
			}
		}
	})
}

func done(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestABoundFileCannotBeChanged: for the programs of the call it is read-only, and the answer
// says which act was refused. Beside it everything is as usual.
func TestABoundFileCannotBeChanged(t *testing.T) {
	everywhere(t, func(t *testing.T, b Backend, ws string) {
		needBinding(t, b)
		box := newBox(t, b, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		script := ws + "/run.sh"
		for _, tt := range []struct {
			line   string
			denied bool
		}{
			{"echo x > run.sh", true},
			{"echo x >> run.sh", true},
			{"rm -f run.sh", true},
			{"mv run.sh other", true},
			{"echo x > next; mv next run.sh", true},
			{"ln -sf next run.sh", true},
			{"sed -i s/good/evil/ run.sh", true},
			{"truncate -s 0 ./run.sh", true},
			{`perl -e 'exit !truncate("run.sh", 0)'`, true}, // by its path, and not by a descriptor
			{"cd ..; mv ${OLDPWD##*/} other", true},
			{"cat run.sh run.sh > copy; cmp run.sh copy; echo x > new; rm new; [ -x run.sh ]", false},
			{"head -c 4 run.sh; read line < run.sh; [ \"$line\" = '#!/bin/sh' ]", false},
			{"! ln -s next run.sh && ! mkdir run.sh && mkdir -p .", false},
			{"mkdir -p sub; cp run.sh sub/; echo x > sub/run.sh; rm sub/run.sh", false},
		} {
			writeFile(t, script, goodScript)
			var out bytes.Buffer
			e := runSpec(t, box, Spec{
				Argv: []string{"bash", "-c", tt.line}, Dir: ws, Stdout: &out, Stderr: &out,
				Bound: []Bound{sealed(t, goodScript, script)},
			})
			named := slices.Contains(e.Denials, Denial{Act: "change " + script, Layer: "approval"})
			if named != tt.denied || (e.Code != 0) != tt.denied {
				t.Errorf("%q: status %d, denied %v, %s", tt.line, e.Code, e.Denials, &out)
			}
			if now, err := os.ReadFile(script); err != nil || string(now) != goodScript {
				t.Errorf("%q left %q, %v", tt.line, now, err)
			}
		}
	})
}

// TestNothingIsAtAnAbsentPath: whatever others put there, and the call cannot make it.
func TestNothingIsAtAnAbsentPath(t *testing.T) {
	everywhere(t, func(t *testing.T, b Backend, ws string) {
		needBinding(t, b)
		box := newBox(t, b, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		files := []Bound{{Names: []string{ws + "/absent", ws + "/none/text"}}, sealed(t, goodScript, ws+"/run.sh")}
		for _, there := range []bool{false, true} {
			if there {
				writeFile(t, ws+"/absent", evilScript)
			}
			writeFile(t, ws+"/run.sh", evilScript)
			writeFile(t, ws+"/text", "x\n")
			for line, denied := range map[string]bool{
				"cat absent": false, "./absent": false, ". ./absent": false, "sh absent": false, "exec " + ws + "/absent": false,
				"echo x > absent": true, "mv run.sh absent": true, "echo x > new; mv new absent": true,
				"ln -s run.sh absent": true, "ln run.sh absent": true, "mkdir absent": true, "mkfifo absent": true,
			} {
				var out bytes.Buffer
				e := runSpec(t, box, Spec{Argv: []string{"bash", "-c", line}, Dir: ws, Stdout: &out, Bound: files})
				named := slices.ContainsFunc(e.Denials, func(d Denial) bool { return d.Layer == "approval" })
				if e.Code == 0 || out.Len() > 0 || named != denied {
					t.Errorf("%q, there %v: status %d, %v, printed %q", line, there, e.Code, e.Denials, &out)
				}
			}
			if _, err := os.Lstat(ws + "/absent"); (err == nil) != there {
				t.Errorf("there %v, now %v", there, err)
			}
			if _, out, err := runBound(t, box, ws, files, "sh", "-c", "cd none 2>&-; read line < text && ./run.sh"); err != nil || out != "good ./run.sh\n" {
				t.Errorf("beside it: %v, %q", err, out)
			}
		}
	})
}

// TestNobodyWritesIntoTheCopy: not even a program that has it open.
func TestNobodyWritesIntoTheCopy(t *testing.T) {
	everywhere(t, func(t *testing.T, b Backend, ws string) {
		needBinding(t, b)
		box := newBox(t, b, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		writeFile(t, ws+"/run.sh", evilScript)
		_, out, err := runBound(t, box, ws, []Bound{sealed(t, goodScript, ws+"/run.sh")}, "bash", "-c",
			"exec 3< run.sh; echo 'echo evil' > /proc/self/fd/3; echo 'echo evil' 1<> /proc/self/fd/3; ./run.sh")
		if err != nil || out != "good ./run.sh\n" {
			t.Errorf("%v, printed %q", err, out)
		}
	})
}

// TestAReplacedProgramEndsItsCall: the kernel has started another program than the one that
// was approved. It runs no instruction, and nothing of its call goes on.
func TestAReplacedProgramEndsItsCall(t *testing.T) {
	everywhere(t, func(t *testing.T, b Backend, ws string) {
		needBinding(t, b)
		box := newBox(t, b, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		program := ws + "/run"
		copyFile(t, "/bin/echo", program, 0o755)
		copyFile(t, "/bin/echo", ws+"/interpreter", 0o755)
		echo, err := os.ReadFile("/bin/echo")
		done(t, err)
		approvedAs := func(content string) []Bound {
			return []Bound{
				sealed(t, content, program), sealed(t, "#!/bin/sh\n", ws+"/other"),
				sealed(t, string(echo), ws+"/interpreter"),
			}
		}
		for _, tt := range []struct {
			name, content string
			there         string // "": the program echo
			ok            bool
		}{
			{"the program", string(echo), "", true},
			{"another program", string(echo) + "x", "", false},
			{"a program for a script", "#!/bin/sh\n", "", false},
			{"a script for a program", string(echo), "#!/bin/echo\n", false},
			{"a script with the same interpreter", "#!/bin/sh\necho good\n", "#!/bin/sh\necho evil\n", true},
			{"a script with another interpreter", "#!/bin/sh\n", "#!/bin/echo\n", false},
			{"a script with another word", "#!/bin/echo one\n", "#!/bin/echo two\n", false},
			{"a script with one word more", "#!/bin/echo\n", "#!/bin/echo one\n", false},
			{"a script with its own path for a word", "#!/bin/sh\n", "#!/bin/sh ./run\n", false},
			{"a script with a bound interpreter", "#!" + ws + "/interpreter\n", "#!" + ws + "/interpreter\n", true},
			{"no program at all", "neither\n", "#!/bin/echo\n", false},
		} {
			content := []byte(tt.there)
			if tt.there == "" {
				content = echo
			}
			done(t, os.WriteFile(program, content, 0o755))
			_, out, err := runBound(t, box, ws, approvedAs(tt.content), "sh", "-c", "./run x; echo went on")
			replaced, ended := errors.AsType[*ReplacedError](err)
			if tt.ok && (err != nil || !strings.HasSuffix(out, "went on\n") || strings.Contains(out, "evil")) {
				t.Errorf("%s: %v, printed %q", tt.name, err, out)
			}
			if !tt.ok && (!ended || replaced.Path != program || out != "") {
				t.Errorf("%s: %v, printed %q", tt.name, err, out)
			}
		}
		copyFile(t, "/bin/cat", ws+"/interpreter", 0o755)
		done(t, os.WriteFile(program, []byte("#!"+ws+"/interpreter\n"), 0o755))
		files := approvedAs("#!" + ws + "/interpreter\n")
		for name, interpreter := range map[string]Bound{
			"another interpreter at its path": files[2],
			"one where there was none":        {Names: []string{ws + "/interpreter"}},
		} {
			_, out, err := runBound(t, box, ws, []Bound{files[0], interpreter}, "./run")
			if _, ended := errors.AsType[*ReplacedError](err); !ended || out != "" {
				t.Errorf("%s: %v, printed %q", name, err, out)
			}
		}
	})
}

// TestManyProgramsOfABoundCall: opens and executes by several processes at once are all
// answered, and a call that is ended in between ends.
func TestManyProgramsOfABoundCall(t *testing.T) {
	everywhere(t, func(t *testing.T, b Backend, ws string) {
		needBinding(t, b)
		for _, profile := range Profiles {
			box := newBox(t, b, profile, guard.Settings{AllowedWritePaths: []string{ws}})
			writeFile(t, ws+"/run.sh", evilScript)
			files := []Bound{sealed(t, goodScript, ws+"/run.sh")}
			_, out, err := runBound(t, box, ws, files, "bash", "-c",
				"for i in {1..40}; do ./run.sh $i & sh run.sh $i & done; wait")
			if n := strings.Count(out, "good "); err != nil || n != 80 || strings.Contains(out, "evil") {
				t.Errorf("%s: %v, %d of 80 printed", profile, err, n)
			}
		}
	})
}

// TestACancelledCallOfManyBoundPrograms: they wait for the launcher when the call ends.
func TestACancelledCallOfManyBoundPrograms(t *testing.T) {
	everywhere(t, func(t *testing.T, b Backend, ws string) {
		needBinding(t, b)
		for _, profile := range Profiles {
			box := newBox(t, b, profile, guard.Settings{AllowedWritePaths: []string{ws}})
			writeFile(t, ws+"/run.sh", evilScript)
			files := []Bound{sealed(t, goodScript, ws+"/run.sh")}
			ctx, cancel := context.WithCancel(context.Background())
			left := 20 // lines, so that several programs wait at any time
			p, err := box.Start(ctx, Spec{
				Argv: []string{"bash", "-c", "while :; do ./run.sh & ./run.sh; done"}, Dir: ws, Bound: files,
				Stdout: writerFunc(func(b []byte) (int, error) {
					if left -= bytes.Count(b, []byte("\n")); left <= 0 {
						cancel()
					}
					return len(b), nil
				}),
			})
			done(t, err)
			if e, err := p.Wait(); err != nil || e.Signal != "SIGKILL" {
				t.Errorf("%s: a cancelled call ended with %+v, %v", profile, e, err)
			}
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
