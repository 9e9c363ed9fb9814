package egress

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestX13_WhatTheHostAddsToANameLeadsNowhere runs on a host of its own, which has a search domain and a public address:
// a judged name is looked up as it is, and an address of this machine is refused though it is public.
func TestX13_WhatTheHostAddsToANameLeadsNowhere(t *testing.T) {
	const inside = "TEST_INSIDE_NAMESPACE"
	if os.Getenv(inside) != "" {
		onAHostOfItsOwn(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		needs.Missing(t, "a user namespace: %v", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	} else if bytes.Contains(out, []byte("--- SKIP")) {
		needs.Missing(t, "%s", out)
	}
}

func onAHostOfItsOwn(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte("search inside.test\nnameserver 127.0.0.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(conf, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		needs.Missing(t, "a mount in a user namespace: %v", err)
	}
	own := [4]byte{8, 8, 8, 8}
	giveLoopback(t, own)
	var mu sync.Mutex
	var asked []string
	d := &Dialer{Timeout: 10 * time.Second, Resolver: resolverAt(t, func(name string, _ int) []string {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, name)
		if name == "own.test." {
			return []string{net.IP(own[:]).String()}
		}
		return []string{} // there is no such name
	})}
	for _, host := range []string{"none.test", "none"} {
		mu.Lock()
		asked = nil
		mu.Unlock()
		_, err := d.Dial(t.Context(), guard.Network{}, host, 443)
		if dns, ok := errors.AsType[*net.DNSError](err); !ok || !dns.IsNotFound {
			t.Errorf("%s: got %v, want that there is no such host", host, err)
		}
		mu.Lock()
		if want := []string{host + "."}; !slices.Equal(asked, want) {
			t.Errorf("%s: asked for %q, want %q", host, asked, want)
		}
		mu.Unlock()
	}
	l, err := net.Listen("tcp4", net.JoinHostPort(net.IP(own[:]).String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = d.Dial(t.Context(), guard.Network{}, "own.test", int(addrPort(l).Port()))
	if wrong, ok := errors.AsType[*AddressError](err); !ok || wrong.What != "an address of this machine" {
		t.Errorf("a name that leads to this machine: got %v", err)
	}
}

// giveLoopback makes the loopback of a new network namespace usable, with one address more.
func giveLoopback(t *testing.T, address [4]byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	up.SetUint16(unix.IFF_UP)
	more, err := unix.NewIfreq("lo:1")
	if err == nil {
		err = more.SetInet4Addr(address[:])
	}
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up)
	}
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCSIFADDR, more)
	}
	if err != nil {
		t.Fatal(err)
	}
}
