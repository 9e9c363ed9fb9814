package api

import (
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/internal/idspace"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestNobodyWithoutANumberInTheNamespaceIsKnown: to a process in a user namespace that has no ids, all users are one,
// so the user at the other end of a connection is nobody. Another process that says who it is has a number for it.
func TestNobodyWithoutANumberInTheNamespaceIsKnown(t *testing.T) {
	const inside = "TEST_INSIDE_NAMESPACE"
	if os.Getenv(inside) != "" {
		c, err := net.FileConn(os.NewFile(3, "connection"))
		must(t, err)
		defer c.Close()
		if p := credentials(c, nil); p.known {
			t.Errorf("got %+v, want nobody", p)
		}
		if p := credentials(c, idspace.PeerOf); !p.known {
			t.Error("whom another process knows is not known")
		}
		return
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	c, err := net.FileConn(ours)
	must(t, err)
	defer c.Close()
	if p := credentials(c, nil); !p.known || p.uid != os.Getuid() {
		t.Errorf("outside of the namespace: got %+v, want uid %d", p, os.Getuid())
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), inside+"=1"), []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		needs.Missing(t, "a user namespace: %v", err)
	}
	if err != nil {
		t.Errorf("inside of the namespace: %v\n%s", err, out)
	}
}
