package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// TestWaitingProcessIsKilled: what waits for the next call is gone when it comes, its
// init process too. The call does not notice; one that comes in the same moment is told
// that nothing was run, or has just begun and ends.
func TestWaitingProcessIsKilled(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		bothRungs(t, func(t *testing.T, backend Backend) {
			ws := shortTemp(t)
			box := newBox(t, backend, "strict", Settings{AllowedWritePaths: []string{ws}})
			for i := range 6 {
				for range 3 { // after such a death nothing is made ahead until a call has asked for it
					runIn(t, box, ws, "true")
				}
				init, program := waiting(t, backend.(*cage))
				if err := unix.Kill([]int{init, program}[i%2], unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				for i < 4 && (runs(init) || runs(program)) {
					time.Sleep(time.Millisecond)
				}
				var out bytes.Buffer
				p, err := box.Start(context.Background(), Spec{Argv: []string{"echo", "ok"}, Dir: ws, Stdout: &out})
				if err != nil {
					t.Fatal(err)
				}
				e, err := p.Wait()
				if i >= 4 && (err != nil && strings.Contains(err.Error(), "no program was run") && out.Len() == 0 || e.Signal == "SIGKILL") {
					continue // it was on its way already, or began
				}
				if err != nil || e.Code != 0 || out.String() != "ok\n" {
					t.Fatalf("the call after death %d: %+v %v %q", i, e, err, out.String())
				}
			}
		})
	})
}

// TestWaitingProcessesHoldLittle: what the launcher has open of other calls, and the
// doors of the others, would keep things alive that have ended.
func TestWaitingProcessesHoldLittle(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to look at processes that hide from their own user")
	}
	bothRungs(t, func(t *testing.T, backend Backend) {
		c := backend.(*cage)
		ws := shortTemp(t)
		box := newBox(t, backend, "strict", Settings{AllowedWritePaths: []string{ws}})
		long, err := box.Start(context.Background(), Spec{Argv: []string{"sleep", "1000"}, Dir: ws}) // of which the launcher has descriptors
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first may be asked for before the long one has begun
			runIn(t, box, ws, "true")
		}
		most := 1 // the socket
		if c.groups != nil {
			most += 2 // the counters
		}
		if c.bare {
			most += 3 // the streams of the launcher
		}
		init, program := waiting(t, c)
		for pid, want := range map[int]int{init: most, program: 4} { // its streams, and the door
			var held []string
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
				fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
				if err != nil {
					t.Fatal(err)
				}
				held = nil
				for _, fd := range fds {
					to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
					held = append(held, fd.Name()+" "+to)
				}
				if len(held) <= want {
					break
				}
			}
			if len(held) != want {
				t.Errorf("%d descriptors, want %d: %q", len(held), want, held)
			}
		}
		long.Terminate(0)
		if _, err := long.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// waiting are the init process that waits for a call, and the one below it that will
// be the program.
func waiting(t *testing.T, c *cage) (init, program int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, l := range c.launchers {
			pid := l.cmd.Process.Pid
			for _, init := range childrenOf(pid) {
				if below := childrenOf(init); len(below) == 1 && runs(init) && runs(below[0]) && comm(below[0]) == comm(pid) {
					return init, below[0]
				}
			}
		}
	}
	t.Fatal("nothing waits for a call")
	return 0, 0
}

// comm is a process's name, which changes when it becomes a program.
func comm(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return string(b)
}

func runs(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func childrenOf(pid int) (out []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range lists {
		b, _ := os.ReadFile(f)
		for _, w := range strings.Fields(string(b)) {
			n, _ := strconv.Atoi(w)
			out = append(out, n)
		}
	}
	return out
}

// TestInitProcessIsKilled: without it nobody would end what the program starts; so
// the program ends with it.
func TestInitProcessIsKilled(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		bothRungs(t, func(t *testing.T, backend Backend) {
			ws := shortTemp(t)
			box := newBox(t, backend, "strict", Settings{AllowedWritePaths: []string{ws}})
			mark := "INIT_MARK=" + filepath.Base(ws)
			p, err := box.Start(context.Background(), Spec{Argv: []string{"sleep", "1000"}, Dir: ws, Env: []string{mark}})
			if err != nil {
				t.Fatal(err)
			}
			var program int
			for ; program == 0; time.Sleep(time.Millisecond) {
				for _, line := range processesOf(t, mark) {
					_, _ = fmt.Sscanf(line, "/proc/%d ", &program)
				}
			}
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", program))
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(stat), ") ")
			init, err := strconv.Atoi(strings.Fields(rest)[1])
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Kill(init, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if e, err := p.Wait(); err != nil || e.Signal != "SIGKILL" {
				t.Errorf("exit %+v, %v", e, err)
			}
			for end := time.Now().Add(10 * time.Second); runs(program); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the program goes on")
				}
			}
			if e, out := runIn(t, box, ws, "echo", "again"); e.Code != 0 || out != "again\n" {
				t.Errorf("the next call: %+v %q", e, out)
			}
		})
	})
}

// TestNothingRunsWhenTheEndIsTold: two hundred processes take a while to end.
func TestNothingRunsWhenTheEndIsTold(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		bothRungs(t, func(t *testing.T, backend Backend) {
			ws := shortTemp(t)
			box := newBox(t, backend, "strict", Settings{AllowedWritePaths: []string{ws}, Limits: Limits{Processes: 1000}})
			mark := "END_MARK=" + filepath.Base(ws)
			for range 3 {
				e := runSpec(t, box, Spec{Argv: []string{"sh", "-c", "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; exit 4"}, Dir: ws, Env: []string{mark}})
				if left := processesOf(t, mark); left != nil || e.Code != 4 {
					t.Fatalf("exit %+v, and left are %d: %v", e, len(left), left[:min(len(left), 3)])
				}
			}
		})
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

// TestBothTellTheSame: the end of most calls is told by their init processes, of those
// in which an act was stopped by the launcher.
func TestBothTellTheSame(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		bothRungs(t, func(t *testing.T, backend Backend) {
			ws := shortTemp(t)
			box := newBox(t, backend, "strict", Settings{AllowedWritePaths: []string{ws}})
			const work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; "
			for _, end := range []string{"exit 0", "exit 7", "kill -TERM $$", "kill -KILL $$", "sleep 1000 & exit 3"} {
				plain, _ := runIn(t, box, ws, "sh", "-c", work+end)
				stopped, out := runIn(t, box, ws, "sh", "-c", "unshare -m true 2>/dev/null; "+work+end)
				if len(plain.Denials) != 0 || len(stopped.Denials) == 0 {
					t.Fatalf("%s: denials %v and %v (%s)", end, plain.Denials, stopped.Denials, out)
				}
				if plain.Code != stopped.Code || plain.Signal != stopped.Signal || plain.Limit != stopped.Limit {
					t.Errorf("%s: %+v by the init process, %+v by the launcher", end, plain, stopped)
				}
				for _, u := range []Usage{plain.Usage, stopped.Usage} {
					if u.CPU < time.Millisecond || u.CPU > 10*time.Second || u.MaxRSSBytes < 1<<20 || u.MaxRSSBytes > 1<<30 {
						t.Errorf("%s: usage %+v", end, u)
					}
				}
			}
		})
	})
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

// TestAnswerIsNeverTooLarge: many different acts with the longest names that JSON can
// make of them.
func TestAnswerIsNeverTooLarge(t *testing.T) {
	bothRungs(t, func(t *testing.T, backend Backend) {
		ws := shortTemp(t)
		box := newBox(t, backend, "strict", Settings{AllowedWritePaths: []string{ws}})
		const script = `n=$(printf '\001%.0s' $(seq 240)); i=0; while [ $i -lt 60 ]; do mknod "$i$n/$n/$n/$n" c 1 3 2>/dev/null; i=$((i+1)); done; exit 5`
		e, out := runIn(t, box, ws, "bash", "-c", script)
		if e.Code != 5 || len(e.Denials) < 10 {
			t.Errorf("exit %d with %d denials: %s", e.Code, len(e.Denials), out)
		}
	})
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

// TestDescriptorsInFlight: the kernel counts what is in messages that nobody has read
// for the user, to whom the launchers belong too. A program that sends as many as it may
// takes neither doors nor listeners from other calls.
func TestDescriptorsInFlight(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		bothRungs(t, func(t *testing.T, backend Backend) {
			ws := shortTemp(t)
			copyFile(t, "/proc/self/exe", ws+"/inflight", 0o755)
			s := Settings{AllowedWritePaths: []string{ws}, Limits: Limits{OpenFiles: 1 << 30}}
			box := newBox(t, backend, "strict", s)
			r, w := io.Pipe()
			p, err := box.Start(context.Background(), Spec{Argv: []string{"./inflight", "-inflight"}, Dir: ws, Stdout: w})
			if err != nil {
				t.Fatal(err)
			}
			if said, err := bufio.NewReader(r).ReadString('\n'); err != nil || said != "too many references: cannot splice\n" {
				t.Fatalf("%q, %v", said, err)
			}
			go func() { _, _ = io.Copy(io.Discard, r) }()
			other, err := backend.Box(context.Background(), t.Name()+"other", "strict", s)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range []Box{box, other, box, other} {
				if e, out := runIn(t, b, ws, "sh", "-c", "unshare -m true 2>/dev/null; echo ok"); e.Code != 0 || out != "ok\n" || len(e.Denials) == 0 {
					t.Errorf("%+v %q", e, out)
				}
			}
			p.Terminate(0)
			if _, err := p.Wait(); err != nil {
				t.Error(err)
			}
		})
	})
}

// putInFlight sends itself descriptors until the kernel refuses, and stays.
func putInFlight() {
	for {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		for err == nil {
			err = unix.Sendmsg(pair[1], []byte{1}, unix.UnixRights(slices.Repeat([]int{pair[0]}, 50)...), nil, unix.MSG_NOSIGNAL)
		}
		if !errors.Is(err, unix.EAGAIN) {
			fmt.Println(err)
			time.Sleep(time.Hour)
		}
	}
}
