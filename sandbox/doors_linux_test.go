package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// TestLongCommands: what fits no message goes through the door in a file, and what the
// kernel does not take is told.
func TestLongCommands(t *testing.T) {
	bothRungs(t, func(t *testing.T, backend Backend) {
		ws := shortTemp(t)
		box := newBox(t, backend, "strict", Settings{AllowedWritePaths: []string{ws}})
		for _, n := range []int{0, 1, 40 << 10, 90 << 10, 100 << 10, 120 << 10} {
			word := strings.Repeat("x", n)
			e, out := runIn(t, box, ws, "sh", "-c", "echo ${#0} ${#1} ${#2} ${#3} $#", word+"0", word+"1", word+"2", word+"3")
			if want := fmt.Sprintf("%d %d %d %d 3\n", n+1, n+1, n+1, n+1); e.Code != 0 || out != want {
				t.Fatalf("words of %d: exit %+v %q", n, e, out)
			}
		}
		var start *StartError
		for _, argv := range [][]string{{"sh", strings.Repeat("x", 200<<10)}, {"/bin/sh", strings.Repeat("x", 200<<10)}} {
			p, err := box.Start(context.Background(), Spec{Argv: argv, Dir: ws})
			if err == nil {
				_, err = p.Wait()
			}
			if !errors.As(err, &start) || start.Code != 126 || !strings.Contains(err.Error(), "argument list too long") {
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
		"workspace": func(ws string) string { return ws }, "shown": func(string) string { return nowhere },
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
	box := newBox(t, backend, "strict", Settings{AllowedWritePaths: []string{write}, DeniedPaths: []string{secret}})
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

// TestALookIsForAllThatIsKnown: one call knows of a socket that another, which asks
// for both, does not.
func TestALookIsForAllThatIsKnown(t *testing.T) {
	backend := newCage(t, Options{})
	needCage(t, backend)
	ws := shortTemp(t)
	box := newBox(t, backend, "strict", Settings{AllowedWritePaths: []string{ws}}).(*box)
	runIn(t, box, ws, "true")
	var l *launcher
	for _, l = range backend.(*cage).launchers {
	}
	older := box.hostSockets("")
	listener, err := net.Listen("unix", filepath.Join(ws, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l.notice(box.hostSockets("")) // the call that knows has not asked yet
	d, err := l.enter(t.Context(), box.settings.Limits.WithDefaults().kernel(), 0, older)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(d.fd)
	info, err := os.Stat(fmt.Sprintf("/proc/%d/root%s/socket", l.cmd.Process.Pid, ws))
	if err != nil || info.Mode()&os.ModeSocket != 0 {
		t.Errorf("in the sandbox it is %v, %v", info, err)
	}
}

// TestDeniedBelowANewMount: the host mounts something over a directory, and a denied
// file comes to be in what lies below and what the sandbox still sees.
func TestDeniedBelowANewMount(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
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
	box := newBox(t, backend, "strict", Settings{AllowedWritePaths: []string{ws}, DeniedPaths: []string{dir + "/secret"}})
	runIn(t, box, ws, "true")
	if err := unix.Mount("above", dir, "tmpfs", 0, ""); err != nil {
		t.Skipf("mount: %v", err)
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
	s := Settings{AllowedWritePaths: []string{ws}}
	runIn(t, newBox(t, backend, "strict", s), ws, "true")
	s.Limits.WallSeconds = 1
	box := newBox(t, backend, "strict", s)
	for _, l := range backend.(*cage).launchers {
		if err := l.cmd.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.cmd.Process.Signal(unix.SIGCONT) }()
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

// TestNoDescriptorForTheDoor: the daemon has too many files open.
func TestNoDescriptorForTheDoor(t *testing.T) {
	l := &launcher{answers: map[uint64]chan child.Message{}, calls: map[uint64]chan child.Reply{}}
	answer := make(chan child.Message, 1)
	l.answers[1] = answer
	l.take(child.Message{For: 1, Door: &child.Door{Call: 7}}, -1)
	if m := <-answer; !strings.Contains(m.Error, "too many open files") || len(l.doors) != 0 {
		t.Errorf("%+v, doors %v", m, l.doors)
	}
}

// TestSearchGoesOn: directories of PATH in which a shell would find nothing.
func TestSearchGoesOn(t *testing.T) {
	bothRungs(t, func(t *testing.T, backend Backend) {
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
		box := newBox(t, backend, "strict", Settings{AllowedWritePaths: []string{ws}})
		for _, dir := range []string{ws + "/loop", "/" + strings.Repeat("x", 300), "/" + strings.Repeat("x/", 3000), ws + "/dir", ws + "/plain", ws + "/plain/echo", "", "rel", "/none"} {
			var out bytes.Buffer
			e := runSpec(t, box, Spec{Argv: []string{"echo", "found"}, Dir: ws, Env: []string{"PATH=" + dir + ":/usr/bin:/bin"}, Stdout: &out})
			if e.Code != 0 || out.String() != "found\n" {
				t.Errorf("after %.40q: %+v %q", dir, e, out.String())
			}
		}
	})
}
