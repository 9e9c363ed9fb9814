package child

import "golang.org/x/sys/unix"

// memoryDevices are those of /dev that are the same for everybody, by the minor of
// their number; the major is 1.
var memoryDevices = map[uint32]string{3: "/dev/null", 5: "/dev/zero", 7: "/dev/full", 8: "/dev/random", 9: "/dev/urandom"}

// ownDevices puts the devices of the template in the place of the host's among the
// streams of a call. They are the same but for their mounts, and those of the
// template are read-only.
func ownDevices(fds []int) {
	for _, fd := range fds {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || unix.Major(st.Rdev) != 1 {
			continue
		}
		name := memoryDevices[unix.Minor(st.Rdev)]
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if name == "" || err != nil {
			continue
		}
		if own, err := unix.Open(name, flags&(unix.O_ACCMODE|unix.O_APPEND|unix.O_NONBLOCK)|unix.O_CLOEXEC|unix.O_NOCTTY, 0); err == nil {
			_ = unix.Dup3(own, fd, unix.O_CLOEXEC)
			_ = unix.Close(own)
		}
	}
}

// withNull puts a descriptor at the streams whose bits are set.
func withNull(fds []int, null uint8, fd int) []int {
	out := make([]int, 0, 3)
	for i := range 3 {
		switch {
		case null&(1<<i) != 0:
			out = append(out, fd)
		case len(fds) > 0:
			out, fds = append(out, fds[0]), fds[1:]
		}
	}
	return out
}
