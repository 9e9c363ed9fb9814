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

// TestTheProgramEndsWithItsReaper: a reaper that is killed can end nothing itself.
func TestTheProgramEndsWithItsReaper(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "reaper"), os.NewFile(uintptr(pair[1]), "daemon")
	defer theirs.Close()
	daemon, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Close()
	reaper := exec.Command("/proc/self/exe", Flag)
	reaper.ExtraFiles = []*os.File{theirs}
	if err := reaper.Start(); err != nil {
		t.Fatal(err)
	}
	defer reaper.Wait()
	defer reaper.Process.Kill()
	theirs.Close()

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
	if _, _, err := daemon.(*net.UnixConn).WriteMsgUnix(order, files, nil); err != nil {
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
