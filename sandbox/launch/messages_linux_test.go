package launch

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// TestALongMessageIsAFile: above 48 KiB, and the file is in front of the others.
func TestALongMessageIsAFile(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(fds[0]), "ours")
	defer ours.Close()
	defer unix.Close(fds[1])
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l := &Launcher{raw: raw}
	for _, length := range []int{48 << 10, 48<<10 + 1} {
		body := bytes.Repeat([]byte("x"), length)
		if err := l.write(t.Context(), body, other); err != nil {
			t.Fatal(err)
		}
		got, oob := make([]byte, 1<<20), make([]byte, 256)
		n, oobn, _, _, err := unix.Recvmsg(fds[1], got, oob, unix.MSG_CMSG_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(messages) != 1 {
			t.Fatalf("%d messages, %v", len(messages), err)
		}
		files, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			t.Fatal(err)
		}
		got = got[:n]
		if length > 48<<10 {
			if string(got) != wire.InFile || len(files) != 2 {
				t.Fatalf("%d bytes: sent are %d bytes and %d files", length, n, len(files))
			}
			got = make([]byte, 1<<20)
			n, err := unix.Pread(files[0], got, 0)
			if err != nil {
				t.Fatal(err)
			}
			got = got[:n]
		}
		if !bytes.Equal(got, body) {
			t.Errorf("%d bytes: received are %d", length, len(got))
		}
		for _, fd := range files {
			unix.Close(fd)
		}
	}
}
