package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/needs"
	"golang.org/x/sys/unix"
)

// TestLongCommands: what fits no message goes through the slot in a file, and what the
// kernel does not take is told.
func TestLongCommands(t *testing.T) {
	bothLevels(t, func(t *testing.T, backend Backend) {
		ws := shortTemp(t)
		box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		for _, n := range []int{0, 1, 40 << 10, 90 << 10, 100 << 10, 120 << 10} {
			word := strings.Repeat("x", n)
			e, out := runIn(t, box, ws, "sh", "-c", "echo ${#0} ${#1} ${#2} ${#3} $#", word+"0", word+"1", word+"2",
				word+"3")
			if want := fmt.Sprintf("%d %d %d %d 3\n", n+1, n+1, n+1, n+1); e.Code != 0 || out != want {
				t.Fatalf("words of %d: exit %+v %q", n, e, out)
			}
		}
		var start *StartError
		for _, argv := range [][]string{
			{"sh", strings.Repeat("x", 200<<10)},
			{"/bin/sh", strings.Repeat("x", 200<<10)},
		} {
			p, err := box.Start(context.Background(), Spec{Argv: argv, Dir: ws})
			if err == nil {
				_, err = p.Wait()
			}
			if !errors.As(err, &start) || start.Code != 126 || !strings.Contains(err.Error(),
				"argument list too long") {
				t.Errorf("a word that no program can have: %v", err)
			}
		}
		if e, out := runIn(t, box, ws, "echo", "again"); e.Code != 0 || out != "again\n" {
			t.Errorf("the next call: %+v %q", e, out)
		}
	})
}

// TestNothingAppearsUnhidden: a denied file that the host makes and takes away again,
// at any moment, while calls go on one after the other and at once. No call that begins
// after it was made reads it, in a workspace or in a directory that is shown for it alone.
func TestNothingAppearsUnhidden(t *testing.T) {
	for name, write := range map[string]func(ws string) string{
		"workspace": func(ws string) string { return ws }, "shown": func(string) string { return guard.NoPath },
	} {
		t.Run(name, func(t *testing.T) {
			ws, err := os.MkdirTemp("/tmp", "cage-")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(ws)
			nothingAppears(t, ws, write(ws))
		})
	}
}

func nothingAppears(t *testing.T, ws, write string) {
	backend := newCage(t, Options{})
	needCage(t, backend)
	secret := filepath.Join(ws, "secret")
	box := newBox(t, backend, "strict", guard.Settings{
		AllowedWritePaths: []string{write},
		DeniedPaths:       []string{secret},
	})
	for i := range 60 {
		if i%2 == 0 {
			if err := os.WriteFile(secret, []byte("hunter2"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if i%3 == 0 {
			time.Sleep(60 * time.Millisecond) // longer than the times of files are unsettled
		}
		var wg sync.WaitGroup
		for range 1 + i%4 {
			wg.Go(func() {
				if e, out := runIn(t, box, ws, "cat", secret); e.Code == 0 || strings.Contains(out, "hunter2") {
					t.Errorf("round %d: it was read: %+v %q", i, e, out)
				}
			})
		}
		wg.Wait()
		if i%2 == 1 {
			if err := os.Remove(secret); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDeniedBelowANewMount: the host mounts something over a directory, and a denied
// file appears in the directory below, which the sandbox still sees.
func TestDeniedBelowANewMount(t *testing.T) {
	if os.Getuid() != 0 {
		needs.Elsewhere(t, "needs root to mount")
	}
	backend := newCage(t, Options{})
	needCage(t, backend)
	ws := shortTemp(t)
	dir := filepath.Join(ws, "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	below, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	box := newBox(t, backend, "strict", guard.Settings{
		AllowedWritePaths: []string{ws},
		DeniedPaths:       []string{dir + "/secret"},
	})
	runIn(t, box, ws, "true")
	if err := unix.Mount("above", dir, "tmpfs", 0, ""); err != nil {
		needs.Missing(t, "mount: %v", err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	for range 3 {
		runIn(t, box, ws, "true")
		time.Sleep(60 * time.Millisecond) // longer than the times of files are unsettled
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/self/fd/%d/secret", below.Fd()), []byte("hunter2"), 0o644); err != nil {
		t.Fatal(err)
	}
	if e, out := runIn(t, box, ws, "cat", dir+"/secret"); e.Code == 0 || strings.Contains(out, "hunter2") {
		t.Errorf("it was read: %+v %q", e, out)
	}
}

// TestStoppedLauncher: the clock of a call runs also while it waits for a process.
func TestStoppedLauncher(t *testing.T) {
	backend := newCage(t, Options{})
	needCage(t, backend)
	ws := shortTemp(t)
	s := guard.Settings{AllowedWritePaths: []string{ws}}
	runIn(t, newBox(t, backend, "strict", s), ws, "true")
	s.Limits.WallSeconds = 1
	box := newBox(t, backend, "strict", s)
	for _, l := range backend.(*cage).pool.All() {
		if err := l.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Process.Signal(unix.SIGCONT) }()
	}
	for range 10 { // as many as wait already are good still
		p, err := box.Start(context.Background(), Spec{Argv: []string{"true"}, Dir: ws})
		if err == nil {
			_, err = p.Wait()
		}
		if err != nil {
			if !errors.Is(err, errNoStart) {
				t.Error(err)
			}
			return
		}
	}
	t.Error("ten calls began in a launcher that is stopped")
}

// TestSearchGoesOn: directories of PATH in which a shell would find nothing.
func TestSearchGoesOn(t *testing.T) {
	bothLevels(t, func(t *testing.T, backend Backend) {
		ws := shortTemp(t)
		if err := os.Symlink("loop", ws+"/loop"); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(ws+"/dir/echo", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(ws+"/plain", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ws+"/plain/echo", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		box := newBox(t, backend, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
		for _, dir := range []string{
			ws + "/loop", "/" + strings.Repeat("x", 300), "/" + strings.Repeat("x/", 3000),
			ws + "/dir", ws + "/plain", ws + "/plain/echo", "", "rel", "/none",
		} {
			var out bytes.Buffer
			e := runSpec(t, box, Spec{
				Argv: []string{"echo", "found"}, Dir: ws,
				Env: []string{"PATH=" + dir + ":/usr/bin:/bin"}, Stdout: &out,
			})
			if e.Code != 0 || out.String() != "found\n" {
				t.Errorf("after %.40q: %+v %q", dir, e, out.String())
			}
		}
	})
}
