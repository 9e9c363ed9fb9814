package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/bound"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// listenFilter returns the filter with two changes. Where it refuses a call, it asks the
// launcher, which can then name the act; ENOSYS is not asked about, because libraries try such
// calls and fall back. And it asks about the calls of observed.
func listenFilter(rules []rule) []wire.Insn {
	out := filter(append(observed(rules), rules...))
	for i, in := range out {
		refuses := in.Code == unix.BPF_RET|unix.BPF_K && in.K&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO
		if refuses && in.K&unix.SECCOMP_RET_DATA != uint32(unix.ENOSYS) {
			out[i].K = unix.SECCOMP_RET_USER_NOTIF
		}
	}
	return out
}

// boundFilter asks about the calls of package bound as well. The launcher first answers as
// the other filter would, so what is refused stays refused.
func boundFilter(rules []rule) []wire.Insn {
	asked := bound.Numbers()
	kept := slices.DeleteFunc(slices.Clone(rules), func(r rule) bool { return slices.Contains(asked, r.nr) })
	return listenFilter(append(kept, refuse(unix.EPERM, asked...)...))
}

// observed are calls that the launcher is asked about although they are allowed.
// Connections are rare, so this costs little.
func observed(rules []rule) []rule {
	if slices.ContainsFunc(rules, func(r rule) bool { return r.nr == unix.SYS_CONNECT }) {
		return nil
	}
	return refuse(unix.EPERM, unix.SYS_CONNECT)
}
