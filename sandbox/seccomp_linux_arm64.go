package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch     = unix.AUDIT_ARCH_AARCH64
	x32Bit        = 0
	cloneFlagsArg = 0
)

// archRules are the calls that only this architecture has.
func archRules() []sysRule { return refuse(unix.EPERM, unix.SYS_KEXEC_FILE_LOAD) }

// archBareCalls are the older forms of what the rung without namespaces refuses:
// this architecture has none of them.
var archBareCalls []uint32
