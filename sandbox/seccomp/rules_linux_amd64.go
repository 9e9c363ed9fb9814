package seccomp

import "golang.org/x/sys/unix"

const (
	auditArch     = unix.AUDIT_ARCH_X86_64
	x32Bit        = 0x40000000 // calls of the x32 ABI have the same architecture
	cloneFlagsArg = 0
)

// archRules are for calls that only this architecture has.
func archRules() []rule {
	t := refuse(unix.EPERM, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_LOOKUP_DCOOKIE,
		unix.SYS_USELIB) // maps a file to execute it by its path, which no launcher is asked about
	for _, r := range []struct {
		nr  uint32
		arg int
	}{{unix.SYS_CHMOD, 1}, {unix.SYS_CREAT, 1}} {
		t = append(t, rule{r.nr, unix.EPERM, []condition{{arg: r.arg, anyBit: setID}}})
	}
	t = append(t, rule{unix.SYS_MKNOD, unix.EPERM, []condition{{arg: 1, anyBit: setID | device}}})
	return append(t, rule{
		unix.SYS_OPEN, unix.EPERM,
		[]condition{{arg: 2, anyBit: setID, bitArg: 1, ifBits: mayCreate}},
	})
}

// archNoNamespacesCalls are older forms of calls that [withoutNamespaces] refuses.
var archNoNamespacesCalls = []uint32{
	unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
}
