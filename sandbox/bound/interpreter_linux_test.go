package bound

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestInterpreterAsTheKernel executes files with first lines of many kinds. Their
// interpreter prints its own words, which must be those that were read.
func TestInterpreterAsTheKernel(t *testing.T) {
	dir := t.TempDir()
	echo := filepath.Join(dir, "echo")
	program, err := os.ReadFile("/bin/echo")
	if err == nil {
		err = os.WriteFile(echo, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", HeadSize)
	for _, first := range []string{
		"#!" + echo + "\n", "#! \t" + echo + " \t\n", "#!" + echo + " one\n", "#!" + echo + " one two \n",
		"#!" + echo + "\tone\n", "#!" + echo, "#!" + echo + " one", "#!" + echo + " one  ", "#!" + echo + "\x00junk\n",
		"#!" + echo + " one\x00junk\n", "#!" + echo + " " + long, "#!" + echo + " " + long + "\n", "#!" + long + "\n",
		"#!/bin/sh\n", "#!\n", "#! \n", "#!", "# !/bin/sh\n", "", "echo\n", "#!" + echo + "\r\n", "#!" + strings.Repeat(" ", 300),
		"#!" + strings.Repeat(" ", 250) + echo,
	} {
		file := filepath.Join(dir, "script")
		if err := os.WriteFile(file, []byte(first), 0o755); err != nil {
			t.Fatal(err)
		}
		path, arg := Interpreter([]byte(first)[:min(len(first), HeadSize)])
		out, err := exec.Command(file, "last").Output()
		printed := strings.TrimSuffix(string(out), "\n")
		switch {
		case errors.Is(err, unix.ENOEXEC):
			if path != "" {
				t.Errorf("%q: the kernel reads no interpreter, and %q was read", first, path)
			}
		case err != nil: // it does not run
			if _, there := os.Stat(path); path != "" && there == nil {
				t.Errorf("%q: %v, and %q was read", first, err, path)
			}
		case path == "/bin/sh": // prints nothing
		default:
			want := file + " last"
			if arg != "" {
				want = arg + " " + want
			}
			if path != echo || printed != want {
				t.Errorf("%q: %q %q was read, and the kernel's program prints %q", first, path, arg, printed)
			}
		}
	}
}

// FuzzInterpreter: no first line is read beyond its end.
func FuzzInterpreter(f *testing.F) {
	f.Add([]byte("#!/bin/sh -x\n"))
	f.Add([]byte("#!/usr/bin/env -S a b"))
	f.Fuzz(func(t *testing.T, head []byte) {
		path, arg := Interpreter(head[:min(len(head), HeadSize)])
		if strings.ContainsAny(path+arg, "\x00\n") || strings.ContainsAny(path, " \t") || path == "" && arg != "" {
			t.Errorf("%q: %q, %q", head, path, arg)
		}
	})
}
