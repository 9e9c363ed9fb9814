package sandbox

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// listenFilter is the filter that asks the launcher where the other one refuses, so
// that the answer can name the act. Calls that are refused as not existing are not
// acts: libraries try them and go on.
func listenFilter(rules []sysRule) []child.Insn {
	out := filter(append(watched(rules), rules...))
	for i, in := range out {
		const ret = unix.BPF_RET | unix.BPF_K
		if in.Code == ret && in.K&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO && in.K&unix.SECCOMP_RET_DATA != uint32(unix.ENOSYS) {
			out[i].K = unix.SECCOMP_RET_USER_NOTIF
		}
	}
	return out
}

// watched are calls that go on after a look. Connections are rare.
func watched(rules []sysRule) []sysRule {
	for _, r := range rules {
		if r.nr == unix.SYS_CONNECT {
			return nil
		}
	}
	return refuse(unix.EPERM, unix.SYS_CONNECT)
}

// compiled gives the filters of a rung. Both are the same for every session.
func compiled() func(bare bool) (plain, listen child.Program) {
	compile := func(bare bool) func() (child.Program, child.Program) {
		return sync.OnceValues(func() (child.Program, child.Program) {
			rules := sysRules(!bare)
			return filter(rules), listenFilter(rules)
		})
	}
	with, without := compile(false), compile(true)
	return func(bare bool) (child.Program, child.Program) {
		if bare {
			return without()
		}
		return with()
	}
}
