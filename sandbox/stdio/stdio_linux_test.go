package stdio_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/stdio"
)

// gone is a writer to somebody who has left.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("nobody is there") }

// A program is stopped when what it prints reaches nobody, and what it still prints until then does not hold it up.
func TestAProgramThatPrintsForNobodyIsStopped(t *testing.T) {
	var heard bytes.Buffer
	for _, tt := range []struct {
		name        string
		out, err    io.Writer
		prints      int // the stream on which it prints
		wantStopped int
	}{
		{"standard output", gone{}, nil, 0, 1},
		{"standard error", &heard, gone{}, 1, 1},
		{"both", gone{}, gone{}, 0, 1},
		{"the other one is heard", &heard, gone{}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			heard.Reset()
			stopped := 0
			var s stdio.Streams
			if err := s.Open(nil, tt.out, tt.err, stdio.Limit{Bytes: 1 << 30}, func() { stopped++ }); err != nil {
				t.Fatal(err)
			}
			fd, err := unix.FcntlInt(s.Files[tt.prints].Fd(), unix.F_DUPFD_CLOEXEC, 0) // as the program has it
			if err != nil {
				t.Fatal(err)
			}
			s.Start()
			program := os.NewFile(uintptr(fd), "output")
			if _, err := program.Write(make([]byte, 1<<20)); err != nil { // more than a pipe holds
				t.Error(err)
			}
			if err := program.Close(); err != nil {
				t.Error(err)
			}
			if s.Wait(); stopped != tt.wantStopped {
				t.Errorf("stopped %d times, want %d", stopped, tt.wantStopped)
			}
		})
	}
}

// A program reads all of a file on its standard input, however large it is.
func TestStandardInputIsWhole(t *testing.T) {
	for _, size := range []int{1, stdio.MaxCopied - 1, stdio.MaxCopied, stdio.MaxCopied + 100_000} {
		want := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		name := filepath.Join(t.TempDir(), "input")
		if err := os.WriteFile(name, want, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		var s stdio.Streams
		if err := s.Open(f, nil, nil, stdio.Limit{Bytes: 1}, func() {}); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(s.Files[0])
		s.Start()
		s.Wait()
		f.Close()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d bytes it reads %d: %v", size, len(got), err)
		}
	}
}

// No program of the sandbox may hold a directory of the host: from there it would reach the whole tree.
func TestADirectoryIsNoStream(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, open := range map[string]func(s *stdio.Streams) error{
		"stdin":  func(s *stdio.Streams) error { return s.Open(f, nil, nil, stdio.Limit{Bytes: 1}, func() {}) },
		"stdout": func(s *stdio.Streams) error { return s.Open(nil, f, nil, stdio.Limit{Bytes: 1}, func() {}) },
		"stderr": func(s *stdio.Streams) error { return s.Open(nil, nil, f, stdio.Limit{Bytes: 1}, func() {}) },
	} {
		var s stdio.Streams
		want := dir + " is a directory, and no program in the sandbox may hold one of the host"
		if err := open(&s); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
		s.Start()
		s.Wait()
	}
}

// TestMemoryDevicesAreOpenedInside: the sandbox has its own.
func TestMemoryDevicesAreOpenedInside(t *testing.T) {
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var s stdio.Streams
		if err := s.Open(f, io.Discard, io.Discard, stdio.Limit{Bytes: 1}, func() {}); err != nil {
			t.Fatal(err)
		}
		if got := s.Devices[0]; got.Path != name || got.Flags != unix.O_RDONLY {
			t.Errorf("%s: opened inside is %+v", name, got)
		}
		s.Start()
		s.Wait()
	}
}
