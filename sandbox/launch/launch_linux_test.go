package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/child"
	"github.com/sandboxd/sandboxd/sandbox/ctime"
	"github.com/sandboxd/sandboxd/sandbox/script"
	"github.com/sandboxd/sandboxd/sandbox/seccomp"
	"github.com/sandboxd/sandboxd/sandbox/view"
	"github.com/sandboxd/sandboxd/sandbox/wire"
	"github.com/sandboxd/sandboxd/tests/needs"
)

func TestMain(m *testing.M) {
	if child.IsChild() {
		child.Main()
	}
	if len(os.Args) == 4 && os.Args[1] == "-daemon" {
		beDaemon(os.Args[2], os.Args[3])
	}
	if len(os.Args) > 2 && os.Args[1] == "-client" {
		beClient(os.Args[2:])
	}
	os.Exit(m.Run())
}

// newPool returns a pool of real launchers, and skips where this kernel gives no
// namespaces.
func newPool(t *testing.T) *Pool {
	t.Helper()
	root := t.TempDir()
	p := NewPool(func() (*Launcher, error) { return Start(Options{Child: "/proc/self/exe", Root: root}) })
	t.Cleanup(p.Close)
	l, err := p.Get(t.Context(), "probe", newConfig(t, "probe", t.TempDir()), Entry{})
	if err != nil {
		needs.Missing(t, "this kernel gives no namespaces: %v", err)
	}
	l.Release()
	p.Forget("probe")
	return p
}

// newConfig is a root in which the directory ws is writable.
func newConfig(t *testing.T, key, ws string) Config {
	t.Helper()
	dir := t.TempDir()
	var filters wire.Template
	filters.Filter, filters.Listen = seccomp.New().For(false)
	tmpl := wire.Template{
		Profile: "strict", Write: []string{ws}, Scratch: dir, Over: filepath.Join(dir, "over"),
		Filter: filters.Filter, Listen: filters.Listen,
	}
	err := view.MakeOver(tmpl.Over)
	for _, name := range []string{"tmp", "vartmp", "cache"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	body, merr := json.Marshal(tmpl)
	if err := errors.Join(err, merr); err != nil {
		t.Fatal(err)
	}
	return Config{Template: body, Key: key}
}

// run runs a program in a launcher and returns its status.
func run(t *testing.T, l *Launcher, argv ...string) uint32 {
	t.Helper()
	c := script.Call{Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/"}
	for i := range c.Devices {
		c.Devices[i] = script.Device{Path: "/dev/null", Flags: unix.O_RDWR}
	}
	slot, err := l.Enter(t.Context(), Entry{Limits: wire.Limits{}, Room: c.Room()})
	if err != nil {
		t.Fatal(err)
	}
	s := script.Compile(slot.Slot, c)
	if err := l.Begin(slot, s, nil); err != nil {
		t.Fatal(err)
	}
	reply, ok := <-slot.End
	if !ok || reply.Error != "" {
		t.Fatalf("%q: %+v %v", argv, reply, ok)
	}
	return reply.Status
}

// TestCalls: slots are taken again and again, and each call has its own end.
func TestCalls(t *testing.T) {
	p := newPool(t)
	l, err := p.Get(t.Context(), "s", newConfig(t, "s", t.TempDir()), Entry{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	for range 5 {
		for want, argv := range map[uint32][]string{0: {"true"}, 7 << 8: {"sh", "-c", "exit 7"}} {
			if got := run(t, l, argv...); got != want {
				t.Errorf("%q: status %#x, want %#x", argv, got, want)
			}
		}
	}
}

// TestProgramsYield: to the daemon, whether the kernel weighs processes or sessions.
func TestProgramsYield(t *testing.T) {
	p := newPool(t)
	l, err := p.Get(t.Context(), "s", newConfig(t, "s", t.TempDir()), Entry{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	for _, is := range []string{"$(nice) -eq 10", "$group -eq $$", "$session -ne $$"} {
		line := "read -r _ _ _ _ group session _ < /proc/self/stat; [ " + is + " ]"
		if got := run(t, l, "sh", "-c", line); got != 0 {
			t.Errorf("%s: status %#x", line, got)
		}
	}
	file := fmt.Sprintf("/proc/%d/autogroup", l.Process.Pid)
	group, err := os.ReadFile(file)
	for end := time.Now().Add(time.Minute); err == nil && !strings.HasSuffix(string(group), " nice 10\n"); {
		if time.Now().After(end) {
			t.Fatalf("%s: %s", file, group)
		}
		time.Sleep(10 * time.Millisecond)
		group, err = os.ReadFile(file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without
		t.Error(err)
	}
}

// TestStartThatHangs: the launcher of one session does not get ready. Other sessions go
// on, callers of the same session wait no longer than their context allows, and deleting
// the session ends the start.
func TestStartThatHangs(t *testing.T) {
	p := newPool(t)
	ws := t.TempDir()
	works := func(session string) {
		t.Helper()
		l, err := p.Get(t.Context(), session, newConfig(t, session, ws), Entry{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		if status := run(t, l, "true"); status != 0 {
			t.Fatalf("session %s: status %d", session, status)
		}
	}
	start := p.start
	for _, forget := range []bool{true, false} {
		stopped := make(chan *Launcher, 1)
		p.start = func() (*Launcher, error) {
			l, err := start()
			if err == nil {
				stop(t, l)
			}
			p.mu.Lock()
			p.start = start // the next one starts as it should
			p.mu.Unlock()
			stopped <- l
			return l, err
		}
		hangs := newConfig(t, "hangs", ws)
		answer := make(chan error, 1)
		go func() {
			l, err := p.Get(context.Background(), "hangs", hangs, Entry{})
			if err == nil {
				l.Release()
			}
			answer <- err
		}()
		hanging := <-stopped
		works("one")
		works(fmt.Sprint("new", forget))
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := p.Get(ctx, "hangs", hangs, Entry{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that is cancelled while it waits: %v", err)
		}
		var want error
		if forget {
			want = ErrGone
			p.Forget("hangs")
		} else if err := hanging.Process.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err := <-answer; !errors.Is(err, want) {
			t.Errorf("the caller that waited: %v, want %v", err, want)
		}
		p.background.Wait()
		p.mu.Lock()
		standby := p.standby
		p.standby = nil // so that the next round starts one
		p.mu.Unlock()
		if standby != nil {
			standby.Close()
		}
	}
}

// TestAStoppedStandby: the launcher that stands by is stopped. The next session does not wait for it.
func TestAStoppedStandby(t *testing.T) {
	p := newPool(t)
	for _, session := range []string{"one", "two"} { // from then on one stands by
		l, err := p.Get(t.Context(), session, newConfig(t, session, t.TempDir()), Entry{})
		if err != nil {
			t.Fatal(err)
		}
		l.Release()
	}
	p.background.Wait()
	stop(t, p.standby)
	l, err := p.Get(t.Context(), "three", newConfig(t, "three", t.TempDir()), Entry{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if status := run(t, l, "true"); status != 0 {
		t.Errorf("status %#x", status)
	}
}

// TestAStoppedLauncherEndsWithItsDaemon: one that is stopped does not see that its socket closes, and nobody knows of
// it any more.
func TestAStoppedLauncherEndsWithItsDaemon(t *testing.T) {
	newPool(t) // skips where there are no namespaces
	template := filepath.Join(t.TempDir(), "template")
	if err := os.WriteFile(template, newConfig(t, "s", t.TempDir()).Template, 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command("/proc/self/exe", "-daemon", t.TempDir(), template)
	daemon.Stderr = os.Stderr
	said, err := daemon.StdoutPipe()
	if err == nil {
		err = daemon.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Wait()
	defer daemon.Process.Kill()
	var pid int
	if _, err := fmt.Fscan(said, &pid); err != nil {
		t.Fatal(err)
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // not every kernel has it
	var fds []unix.PollFd
	for _, text := range append([]string{fmt.Sprint(pid)}, strings.Fields(string(children))...) {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(n, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range fds {
		n, err := unix.Poll(fds[i:i+1], 60_000)
		for errors.Is(err, unix.EINTR) {
			n, err = unix.Poll(fds[i:i+1], 60_000)
		}
		if n != 1 {
			t.Errorf("process %d of the launcher goes on: %v", i, err)
			_ = unix.PidfdSendSignal(int(fds[i].Fd), unix.SIGKILL, nil, 0)
		}
	}
}

// beDaemon is a daemon that a test kills: it starts a launcher, stops it, and says its number.
func beDaemon(root, template string) {
	body, err := os.ReadFile(template)
	var l *Launcher
	if err == nil {
		l, err = Start(Options{Child: "/proc/self/exe", Root: root})
	}
	if err == nil {
		err = l.Serve(context.Background(), Config{Template: body, Key: "s"}, Entry{})
	}
	if err == nil {
		err = l.Process.Signal(unix.SIGSTOP)
	}
	if err == nil {
		err = unix.Waitid(unix.P_PID, l.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Process.Pid)
	select {}
}

// TestANewbornThatIsStopped: without namespaces the daemon waits until all processes have
// closed the launcher's standard error. One that was stopped in the moment in which it was made
// does not hear that the launcher has died.
func TestANewbornThatIsStopped(t *testing.T) {
	dir := t.TempDir()
	for name, end := range map[string]string{"killed": "kill -9 $$", "alive": "exec sleep 1000"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			text := "#!/bin/sh\nsleep 1000 &\nkill -STOP $!\necho $! >" + file + ".pid\n" + end + "\n"
			if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			l, err := Start(Options{Child: file, NoNamespaces: true})
			if err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				if text, err := os.ReadFile(file + ".pid"); err == nil && len(text) > 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("it does not start")
				}
			}
			l.kill()
			select {
			case <-l.Ended:
			case <-time.After(time.Minute):
				t.Error("it does not end")
			}
		})
	}
}

// stop stops a launcher, and returns when it has stopped.
func stop(t *testing.T, l *Launcher) {
	t.Helper()
	err := l.Process.Signal(unix.SIGSTOP)
	if err == nil {
		err = unix.Waitid(unix.P_PID, l.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestAScanCoversAllSocketsKnown: one call knows of a socket that another call, which has
// the launcher scan, does not know of.
func TestAScanCoversAllSocketsKnown(t *testing.T) {
	p := newPool(t)
	ws, err := os.MkdirTemp("", "launch-") // short enough for the name of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(ws) })
	l, err := p.Get(t.Context(), "s", newConfig(t, "s", ws), Entry{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	run(t, l, "true")
	socket := filepath.Join(ws, "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l.mustScan(Entry{Masks: []string{socket}}) // the call that knows has not sent its request yet
	slot, err := l.Enter(t.Context(), Entry{Limits: wire.Limits{}, Room: 0})
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(slot.fd)
	info, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", l.Process.Pid, socket))
	if err != nil || info.Mode()&os.ModeSocket != 0 {
		t.Errorf("in the sandbox it is %v, %v", info, err)
	}
}

// TestNoDescriptorForTheSlot: the daemon has too many files open.
func TestNoDescriptorForTheSlot(t *testing.T) {
	l := &Launcher{answers: map[uint64]chan wire.Message{}, calls: map[uint64]chan wire.Reply{}}
	answer := make(chan wire.Message, 1)
	l.answers[1] = answer
	l.dispatch(wire.Message{For: 1, Slot: &wire.Slot{Call: 7}}, nil)
	if m := <-answer; !strings.Contains(m.Error, "too many open files") || len(l.slots) != 0 {
		t.Errorf("%+v, slots %v", m, l.slots)
	}
}

// TestAFullSocket: a launcher that is stopped reads nothing, so its socket fills. Whoever waits
// for a process still goes when its time is over, and the launcher is ended.
func TestAFullSocket(t *testing.T) {
	p := newPool(t)
	config := newConfig(t, "s", t.TempDir())
	l, err := p.Get(t.Context(), "s", config, Entry{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	stop(t, l)
	for i := 0; !errors.Is(l.send([]byte(`{"ID":1,"Signal":64}`), nil), unix.EAGAIN); i++ {
		if i > 1e6 {
			t.Fatal("the socket takes everything")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			_, err := l.Enter(ctx, Entry{Limits: wire.Limits{Memory: 1 << 30}}) // for which no slot is ready
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrGone) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	<-l.Ended
	for range 100 { // its socket is closed at any of these moments
		if _, err := l.Enter(t.Context(), Entry{Limits: wire.Limits{Memory: 1 << 30}}); !errors.Is(err, ErrGone) {
			t.Errorf("a call of a launcher that is gone: %v", err)
		}
	}
	again, err := p.Get(t.Context(), "s", config, Entry{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	if status := run(t, again, "true"); status != 0 {
		t.Errorf("the next call: status %#x", status)
	}
}

// TestTheLatestListOfEachRoot: two calls look at the trees at the same time, and each sees
// one of them later than the other call does.
func TestTheLatestListOfEachRoot(t *testing.T) {
	l := &Launcher{masked: map[string]bool{}, kept: map[string]Kept{}, dirs: &ctime.Set{}}
	kept := func(root string, version uint64) Kept {
		return Kept{root, version, []wire.Kept{{Path: fmt.Append(nil, root, version)}}}
	}
	for _, tt := range []struct {
		kept []Kept
		want string
		scan bool
	}{
		{[]Kept{kept("a", 1), kept("b", 2)}, "a1 b2", true},
		{[]Kept{kept("a", 1), kept("b", 4)}, "a1 b4", true},
		{[]Kept{kept("a", 3), kept("b", 2)}, "a3 b4", true},
		{[]Kept{kept("a", 3), kept("b", 4)}, "a3 b4", false},
		{[]Kept{kept("a", 1), kept("b", 2)}, "a3 b4", false},
	} {
		before := l.generation
		generation, _, paths := l.mustScan(Entry{Kept: tt.kept})
		var got []string
		for _, p := range paths {
			got = append(got, string(p.Path))
		}
		if strings.Join(got, " ") != tt.want || generation != before+map[bool]int{true: 1}[tt.scan] {
			t.Errorf("%v: %q, generation %d after %d", tt.kept, got, generation, before)
		}
	}
}
