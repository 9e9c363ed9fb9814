package reaper

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Flag {
		Main()
	}
	os.Exit(m.Run())
}

// started starts a reaper, which the end of the test ends.
func started(t *testing.T) (reaper *exec.Cmd, daemon *net.UnixConn) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "reaper"), os.NewFile(uintptr(pair[1]), "daemon")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		t.Fatal(err)
	}
	reaper = exec.Command("/proc/self/exe", Flag)
	reaper.ExtraFiles = []*os.File{theirs}
	if err := reaper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = reaper.Process.Kill()
		_ = reaper.Wait()
	})
	return reaper, conn.(*net.UnixConn)
}

// TestAnOrderWithoutThreeDescriptorsIsRefused: the report says in words what is wrong.
func TestAnOrderWithoutThreeDescriptorsIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		files      []int
	}{
		{"none", "the order has no descriptors", nil},
		{"two", "the order has 2 descriptors, want 3", []int{0, 1}},
	} {
		_, daemon := started(t)
		var oob []byte
		if tt.files != nil {
			oob = unix.UnixRights(tt.files...)
		}
		if _, _, err := daemon.WriteMsgUnix([]byte("{}"), oob, nil); err != nil {
			t.Fatal(err)
		}
		var got Report
		if err := json.NewDecoder(daemon).Decode(&got); err != nil || got.Error != tt.want {
			t.Errorf("%s: got %+v, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

// TestTheEndIsToldOnce: after a signal the reaper looks though no child has ended, and its program has no number then.
func TestTheEndIsToldOnce(t *testing.T) {
	runs := exec.Command("sleep", "1000")
	if err := runs.Start(); err != nil {
		t.Fatal(err)
	}
	defer runs.Wait()
	defer runs.Process.Kill()
	if r := (&tree{}).reap(); r != nil {
		t.Errorf("told %+v again", r)
	}
}

// TestTheProgramEndsWithItsReaper: a reaper that is killed can end nothing itself.
func TestTheProgramEndsWithItsReaper(t *testing.T) {
	reaper, daemon := started(t)
	held, holds, err := os.Pipe() // held ends when the program has ended
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	defer holds.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	order, err := json.Marshal(Order{
		Path: []byte("/bin/sh"), Env: [][]byte{[]byte("PATH=/usr/bin:/bin")},
		Argv: [][]byte{[]byte("sh"), []byte("-c"), []byte("echo $$; exec sleep 1000")},
	})
	if err != nil {
		t.Fatal(err)
	}
	files := unix.UnixRights(int(null.Fd()), int(holds.Fd()), int(holds.Fd()))
	if _, _, err := daemon.WriteMsgUnix(order, files, nil); err != nil {
		t.Fatal(err)
	}
	holds.Close()

	if err := held.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	from := bufio.NewReader(held)
	line, err := from.ReadString('\n')
	if err != nil {
		t.Fatalf("the program does not run: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := reaper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(from); err != nil {
		t.Errorf("the program runs on without its reaper: %v", err)
		_ = unix.Kill(pid, unix.SIGKILL) // it is nobody's child any more
	}
}
