package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv("AUDIT_TEST_LOCK") != "":
		holdLock(os.Getenv("AUDIT_TEST_LOCK"))
	case os.Getenv("AUDIT_TEST_CHURN") != "":
		churn(os.Getenv("AUDIT_TEST_CHURN"))
	case os.Getenv("AUDIT_TEST_WRITE") != "":
		writeForever(os.Getenv("AUDIT_TEST_WRITE"))
	case os.Getenv("AUDIT_TEST_FULL") != "":
		writeIntoALimit(os.Getenv("AUDIT_TEST_FULL"))
	}
	os.Exit(m.Run())
}

// holdLock is a child process that keeps the lock until its stdin closes.
func holdLock(dir string) {
	if _, err := LockState(context.Background(), dir); err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("locked\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// child starts this test binary again as one of the helpers of TestMain.
func child(t *testing.T, env string) (*exec.Cmd, *bufio.Reader, io.Closer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewReader(out), in
}

func TestTheLockNamesItsHolderAndDiesWithIt(t *testing.T) {
	dir := t.TempDir()
	cmd, out, _ := child(t, "AUDIT_TEST_LOCK="+dir)
	if line, err := out.ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	_, err := LockState(t.Context(), dir)
	var held *Held
	if !errors.As(err, &held) || held.PID != cmd.Process.Pid {
		t.Fatalf("got %v, want the pid %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil { // SIGKILL: nothing cleans up
		t.Fatal(err)
	}
	_ = cmd.Wait()
	lock, err := LockState(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestTheLocksFollowNoLink(t *testing.T) {
	for _, name := range []string{"lock", "turn"} {
		dir := t.TempDir()
		victim := filepath.Join(dir, "victim")
		if err := errors.Join(os.WriteFile(victim, []byte("keep"), 0o600),
			os.Symlink(victim, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
		if _, err := LockState(t.Context(), dir); err == nil {
			t.Errorf("%s: a symlink was locked", name)
		}
		if text, _ := os.ReadFile(victim); string(text) != "keep" {
			t.Errorf("%s: the target of the link now holds %q", name, text)
		}
	}
}

func (p place) shared(dbPath string) Shared {
	return Shared{Options: p.Options, OpenMirror: func(ctx context.Context) (Mirror, io.Closer, error) {
		db, err := store.Open(ctx, store.Options{Path: dbPath}, Schema())
		if err != nil {
			return nil, nil, err
		}
		return NewMirror(db), db, nil
	}}
}

// TestExecsWithoutADaemonShareTheRecord: every line by its own opening, as if by
// its own process.
func TestExecsWithoutADaemonShareTheRecord(t *testing.T) {
	p := newPlace(t)
	s := p.shared(filepath.Join(p.Dir, "state.db"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c := sampleCall()
			if err := errors.Join(s.Begin(t.Context(), c), s.End(t.Context(), c)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	mirror, db, err := s.OpenMirror(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rep, err := Verify(t.Context(), p.Options, mirror)
	if err != nil || rep.Bad != nil || rep.Lines != 8 || rep.Mirrored != 8 {
		t.Errorf("got %+v, %v, want 8 lines, all mirrored", rep, err)
	}
}

// TestExecBesideADaemonDoesNotWaitForIt: it hands its lines to the daemon at once.
func TestExecBesideADaemonDoesNotWaitForIt(t *testing.T) {
	p := newPlace(t)
	synctest.Test(t, func(t *testing.T) {
		lock, err := LockState(t.Context(), p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Release()
		start := time.Now()
		err = p.shared(filepath.Join(p.Dir, "state.db")).Begin(t.Context(), sampleCall())
		var held *Held
		if !errors.As(err, &held) || held.PID != os.Getpid() {
			t.Errorf("got %v, want the pid of this process", err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %s for a daemon that does not go away", waited)
		}
	})
}

// However many lines come first, each has its own time; one that does not end is no daemon.
func TestATurnIsWaitedForWhileOthersTakeTheirs(t *testing.T) {
	p := newPlace(t)
	synctest.Test(t, func(t *testing.T) {
		ready := make(chan struct{})
		go func() {
			for i := range 4 {
				line, err := lockForLine(t.Context(), p.Dir)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.Chtimes(filepath.Join(p.Dir, "turn"), time.Time{}, time.Now()); err != nil { // of the bubble
					t.Error(err)
				}
				if i == 0 {
					close(ready)
				}
				time.Sleep(turnPatience - time.Millisecond) // so that who polls comes later
				if err := line.Release(); err != nil {
					t.Error(err)
				}
			}
		}()
		<-ready
		lock, err := LockState(t.Context(), p.Dir)
		if err != nil {
			t.Fatalf("others took their turns: %v", err)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
		stopped, err := waitFile(t.Context(), p.Dir, "turn", gone)
		if err != nil {
			t.Fatal(err)
		}
		defer stopped.Close()
		err = p.shared(filepath.Join(p.Dir, "state.db")).Begin(t.Context(), sampleCall())
		if held := (*Held)(nil); err == nil || errors.As(err, &held) {
			t.Errorf("a line that does not end: got %v, and no daemon has the record", err)
		}
	})
}

func TestADaemonThatStartsWaitsForALine(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		line, err := lockForLine(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() {
			if err := line.Release(); err != nil {
				t.Error(err)
			}
		})
		lock, err := LockState(t.Context(), dir)
		if err != nil {
			t.Fatalf("the daemon does not start beside an exec: %v", err)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	})
}

func TestTailGivesTheLastLines(t *testing.T) {
	p := newPlace(t)
	p.fill(t, 999) // the checkpoint is line 1000, the one of Close line 1001
	for _, n := range []int{0, 1, 3, 1001, 5000} {
		var got []string
		err := Tail(t.Context(), p.Path(), n, false, func(line []byte) error {
			e, err := decode(line)
			got = append(got, e.Event+" "+e.Message)
			return err
		})
		if err != nil || len(got) != min(n, 1001) {
			t.Errorf("n=%d: got %d lines, %v", n, len(got), err)
		}
		if n == 3 && strings.Join(got, ",") != "operator event 998,checkpoint ,checkpoint " {
			t.Errorf("got %q", got)
		}
	}
}

func TestTailFollows(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	if err := l.Append(t.Context(), tool.Note{Name: "operator", Message: "first"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	err := Tail(ctx, p.Path(), 10, true, func(line []byte) error {
		e, err := decode(line)
		got = append(got, e.Message)
		if e.Message == "first" {
			return l.Append(t.Context(), tool.Note{Name: "operator", Message: "second"})
		}
		cancel()
		return err
	})
	if err != nil || strings.Join(got, ",") != "first,second" {
		t.Errorf("got %q, %v", got, err)
	}
}

// What a daemon had just forked when it ended, and its own threads, have the lock for a moment.
func TestTheLockOfWhoHasEndedIsWaitedFor(t *testing.T) {
	for name, reaped := range map[string]bool{"nothing is left of it": true, "nobody has waited for it": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ended := exec.Command("true")
			if err := ended.Start(); err != nil {
				t.Fatal(err)
			}
			options := unix.WEXITED
			if !reaped {
				options |= unix.WNOWAIT
				t.Cleanup(func() { _ = ended.Wait() })
			}
			if err := unix.Waitid(unix.P_PID, ended.Process.Pid, nil, options, nil); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(f, ended.Process.Pid)
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(100*time.Millisecond, func() { f.Close() })
			l, err := LockState(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Release(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
