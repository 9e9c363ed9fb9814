package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/tier"
	"golang.org/x/sys/unix"
)

// raceTries is how often each race is tried.
func raceTries(t testing.TB) int { return tier.Rounds(t, 7, 1000) } // at least one of each way

// flips are ways to put another file in the place of target, and back. other has as many
// files as there are contents; target is in a directory of its own.
var flips = map[string]func(target string, contents [][]byte, i int) error{
	"rename": func(target string, contents [][]byte, i int) error {
		next := target + ".next"
		if err := os.WriteFile(next, contents[i], 0o755); err != nil {
			return err
		}
		return os.Rename(next, target)
	},
	"write": func(target string, contents [][]byte, i int) error {
		return os.WriteFile(target, contents[i], 0o755)
	},
	"symlink": func(target string, contents [][]byte, i int) error {
		file, next := fmt.Sprint(target, ".", i), target+".next"
		if err := os.WriteFile(file, contents[i], 0o755); err != nil {
			return err
		}
		_ = os.Remove(next)
		return errors.Join(os.Symlink(file, next), os.Rename(next, target))
	},
	"link": func(target string, contents [][]byte, i int) error {
		file, next := fmt.Sprint(target, ".", i), target+".next"
		_ = os.Remove(file)
		if err := os.WriteFile(file, contents[i], 0o755); err != nil {
			return err
		}
		_ = os.Remove(next)
		return errors.Join(os.Link(file, next), os.Rename(next, target))
	},
	"directory": func(target string, contents [][]byte, i int) error {
		dir := filepath.Dir(target)
		next := fmt.Sprint(dir, ".", i)
		if err := os.MkdirAll(next, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(next, filepath.Base(target)), contents[i], 0o755); err != nil {
			return err
		}
		return unix.Renameat2(unix.AT_FDCWD, next, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
	},
}

// flip replaces a file again and again, until the directory "stop" appears beside its own,
// or whoever started it is gone.
// It is a program of its own, so that it can be a call too.
func flip(how, target string) {
	contents, err := flipContents()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	stop, parent := filepath.Join(filepath.Dir(filepath.Dir(target)), "stop"), os.Getppid()
	for i := 0; ; i = (i + 1) % len(contents) {
		// A text that is busy, or what another flip has left, is tried again.
		_ = flips[how](target, contents, i)
		if _, err := os.Lstat(stop); err == nil || os.Getppid() != parent { // a test that was killed says nothing
			os.Exit(0)
		}
	}
}

// flipContents are the contents that come and go: a script and a program that were
// approved, and others with the same interpreter, with another one, and without any.
func flipContents() ([][]byte, error) {
	cat, err1 := os.ReadFile("/bin/cat")
	echo, err2 := os.ReadFile("/bin/echo")
	return [][]byte{
		[]byte(goodScript), []byte("#!/bin/sh\necho evil\n"), cat, []byte("#!/bin/echo evil\n"), echo,
	}, errors.Join(err1, err2)
}

// TestNobodyWinsARaceForWhatRuns: while another process replaces a file as fast as it can,
// what runs is what was approved, or nothing.
func TestNobodyWinsARaceForWhatRuns(t *testing.T) {
	tier.Long(t, "a race is chance; TestProgramsGetWhatWasApproved changes the same files without one")
	everywhere(t, func(t *testing.T, b Backend, _ string) {
		needBinding(t, b)
		for how := range flips {
			for _, from := range []string{"the host", "another call", "another session"} {
				t.Run(how+" from "+from, func(t *testing.T) { race(t, b, how, from) })
			}
		}
	})
}

func race(t *testing.T, b Backend, how, from string) {
	ws := shortTemp(t)
	s := guard.Settings{AllowedWritePaths: []string{ws}}
	box := newBox(t, b, "strict", s)
	target := ws + "/sub/run"
	writeFile(t, target, goodScript)
	attack(t, b, box, s, from, "-flip", how, target)
	contents, err := flipContents()
	done(t, err)
	script, program := sealed(t, goodScript, target), sealed(t, string(contents[2]), target)
	writeFile(t, ws+"/text", "good text\n")
	ran := map[string]int{}
	ways := []struct {
		file  Bound
		dir   string
		words []string
		want  string
	}{
		{script, ws, []string{"sub/run", "text"}, "good sub/run text\n"},
		{script, ws, []string{"sh", "sub/run", "text"}, "good sub/run text\n"},
		{program, ws, []string{"sub/run", "text"}, "good text\n"},
		{script, ws + "/sub", []string{"./run", "../text"}, "good ./run ../text\n"},
		{script, ws + "/sub", []string{"sh", "run"}, "good run\n"},
		{script, ws, []string{"bash", "-c", "cd sub && ./run text"}, "good ./run text\n"},
		{script, ws, []string{"bash", "-c", "cd sub && . ./run"}, "good bash\n"},
	}
	for i := range raceTries(t) {
		way := ways[i%len(ways)]
		_, out, err := runBound(t, box, way.dir, []Bound{way.file}, way.words...)
		if out != "" && out != way.want {
			t.Fatalf("%v ran: %v, printed %q", way.words, err, out)
		}
		ran[out]++
	}
	t.Logf("what %d tries printed: %v", raceTries(t), ran)
	// The same without binding: the attack has teeth.
	for range 20_000 {
		if _, out, _ := runBound(t, box, ws, nil, "sub/run", "text"); strings.Contains(out, "evil") {
			return
		}
	}
	t.Error("without binding nothing else ran either")
}

// attack starts this test binary with these words until the test has ended.
func attack(t *testing.T, b Backend, same Box, s guard.Settings, from string, words ...string) {
	self := s.AllowedWritePaths[0] + "/attack"
	copyFile(t, "/proc/self/exe", self, 0o755)
	var err error
	stop := filepath.Dir(filepath.Dir(words[len(words)-1])) + "/stop"
	switch from {
	case "the host":
		cmd := exec.Command(self, words...)
		done(t, cmd.Start())
		t.Cleanup(func() { done(t, os.Mkdir(stop, 0o755), cmd.Wait()) })
		return
	case "another session":
		same, err = b.Box(context.Background(), t.Name()+"-other", "strict", s)
		done(t, err)
		t.Cleanup(func() { same.Close() })
	}
	var out bytes.Buffer
	p, err := same.Start(context.Background(), Spec{Argv: append([]string{self}, words...), Dir: s.AllowedWritePaths[0], Stderr: &out})
	done(t, err)
	t.Cleanup(func() {
		done(t, os.Mkdir(stop, 0o755))
		if e, err := p.Wait(); err != nil || e.Code != 0 {
			t.Errorf("the attack ended with %+v, %v, %s", e, err, &out)
		}
	})
}
