package seccomp

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox/wire"
	"github.com/sandboxd/sandboxd/tests/golden"
	"github.com/sandboxd/sandboxd/tests/needs"
	"golang.org/x/sys/unix"
)

// simulate runs the filter as the kernel does, on one system call.
func simulate(t *testing.T, prog []wire.Insn, arch, nr uint32, args [6]uint64) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.NativeEndian.PutUint32(data[dataNr:], nr)
	binary.NativeEndian.PutUint32(data[dataArch:], arch)
	for i, a := range args {
		binary.NativeEndian.PutUint64(data[dataArgs+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case load:
			acc = binary.NativeEndian.Uint32(data[in.K:])
		case jeq:
			jump(acc == in.K)
		case jge:
			jump(acc >= in.K)
		case jset:
			jump(acc&in.K != 0)
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d has the unknown code %#x", pc, in.Code)
		}
	}
	t.Fatalf("call %d falls off the end of the filter", nr)
	return 0
}

func action(ret uint32) string {
	switch ret & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW:
		return "allow"
	case unix.SECCOMP_RET_ERRNO:
		return unix.ErrnoName(unix.Errno(ret & unix.SECCOMP_RET_DATA))
	}
	return fmt.Sprintf("%#x", ret)
}

// TestX39_FilterTableIsGenerated holds what the filter does with every number, with no
// bit of the arguments set and with all of them, against a file.
func TestX39_FilterTableIsGenerated(t *testing.T) {
	var got strings.Builder
	for _, table := range []struct {
		name         string
		noNamespaces bool
	}{{"with namespaces", false}, {"without namespaces", true}} {
		prog := filter(rules(table.noNamespaces))
		fmt.Fprintf(&got, "%s:\n", table.name)
		for nr := range uint32(1024) {
			zero := action(simulate(t, prog, auditArch, nr, [6]uint64{}))
			ones := action(simulate(t, prog, auditArch, nr, [6]uint64{
				^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0),
				^uint64(0), ^uint64(0),
			}))
			if zero != "allow" || ones != "allow" {
				fmt.Fprintf(&got, "%d %s %s\n", nr, zero, ones)
			}
		}
	}
	table := "testdata/seccomp." + runtime.GOARCH
	if _, err := os.Stat(table); err != nil && !golden.Update() {
		needs.Missing(t, "no table for this architecture, make generate writes it: %v", err)
	}
	golden.Check(t, table, got.String())
}

// TestX39_FilterKnowsOneArchitecture: the same number is another call elsewhere.
func TestX39_FilterKnowsOneArchitecture(t *testing.T) {
	prog := filter(rules(false))
	for _, arch := range []uint32{
		unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_AARCH64,
		unix.AUDIT_ARCH_ARM, 0,
	} {
		for nr := range uint32(1024) {
			if got := action(simulate(t, prog, arch, nr, [6]uint64{})); arch != auditArch && got != "ENOSYS" {
				t.Fatalf("call %d of architecture %#x: %s", nr, arch, got)
			}
			if x32Bit == 0 {
				continue
			}
			if got := action(simulate(t, prog, arch, uint32(x32Bit)|nr, [6]uint64{})); got != "ENOSYS" {
				t.Fatalf("x32 call %d: %s", nr, got)
			}
		}
	}
}

// TestX39_FilterConditions: what depends on an argument.
func TestX39_FilterConditions(t *testing.T) {
	prog := filter(rules(false))
	const dirt = 0xdead << 32 // the kernel ignores the high half of these arguments, so the filter must
	for _, tt := range []struct {
		name string
		nr   uint32
		args [6]uint64
		want string
	}{
		{
			"a thread", unix.SYS_CLONE,
			[6]uint64{cloneFlagsArg: unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND},
			"allow",
		},
		{
			"a child in a new user namespace", unix.SYS_CLONE,
			[6]uint64{cloneFlagsArg: unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)},
			"EPERM",
		},
		{"unshare of descriptors", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_FILES}, "allow"},
		{"unshare of time", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWTIME}, "EPERM"},
		{"an executable file", unix.SYS_FCHMODAT, [6]uint64{2: 0o755}, "allow"},
		{"a set-user-id file", unix.SYS_FCHMODAT, [6]uint64{2: 0o4755}, "EPERM"},
		{"a set-group-id file by the new call", unix.SYS_FCHMODAT2, [6]uint64{2: 0o2755}, "EPERM"},
		{"reading with dirt in the mode", unix.SYS_OPENAT, [6]uint64{3: 0o6777}, "allow"},
		{"creating with set-user-id", unix.SYS_OPENAT, [6]uint64{2: unix.O_CREAT, 3: 0o4755}, "EPERM"},
		{"window size", unix.SYS_IOCTL, [6]uint64{1: unix.TIOCGWINSZ}, "allow"},
		{"input pushed", unix.SYS_IOCTL, [6]uint64{1: unix.TIOCSTI | dirt}, "EPERM"},
		{"selection pasted", unix.SYS_IOCTL, [6]uint64{1: unix.TIOCLINUX}, "EPERM"},
		{"line discipline", unix.SYS_IOCTL, [6]uint64{1: unix.TIOCSETD}, "EPERM"},
		{"unix socket", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, "allow"},
		{"tcp", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP}, "allow"},
		{
			"multipath tcp", unix.SYS_SOCKET,
			[6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
			"EPROTONOSUPPORT",
		},
		{
			"sctp by IPv6", unix.SYS_SOCKET,
			[6]uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
			"EPROTONOSUPPORT",
		},
		{"routes", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, "allow"},
		{
			"socket diagnosis", unix.SYS_SOCKET,
			[6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG},
			"EPROTONOSUPPORT",
		},
		{"packets", unix.SYS_SOCKET, [6]uint64{unix.AF_PACKET, unix.SOCK_RAW}, "EAFNOSUPPORT"},
		{"vsock", unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, "EAFNOSUPPORT"},
		{"usual personality", unix.SYS_PERSONALITY, [6]uint64{0xffffffff}, "allow"},
		{"readable means executable", unix.SYS_PERSONALITY, [6]uint64{0x0400000}, "EPERM"},
		{"ptrace of an own child", unix.SYS_PTRACE, [6]uint64{}, "allow"},
	} {
		if got := action(simulate(t, prog, auditArch, tt.nr, tt.args)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestACallHasOneRule: the filter would find only one of two, and the other would refuse nothing.
func TestACallHasOneRule(t *testing.T) {
	for _, noNamespaces := range []bool{false, true} {
		seen := map[uint32]bool{}
		for _, r := range rules(noNamespaces) {
			if seen[uint32(r.nr)] {
				t.Errorf("without namespaces %t: call %d has two rules", noNamespaces, r.nr)
			}
			seen[uint32(r.nr)] = true
		}
	}
}
