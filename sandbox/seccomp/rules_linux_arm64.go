package seccomp

import "golang.org/x/sys/unix"

const (
	auditArch     = unix.AUDIT_ARCH_AARCH64
	x32Bit        = 0
	cloneFlagsArg = 0
)

// archRules are for calls that only this architecture has.
func archRules() []rule { return refuse(unix.EPERM, unix.SYS_KEXEC_FILE_LOAD) }

// archNoNamespacesCalls: this architecture has no older forms of those calls.
var archNoNamespacesCalls []uint32
