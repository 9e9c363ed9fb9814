package limit

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Held names what enforces each limit for calls of a profile: strict calls have a PID
// namespace of their own. groups is nil without control groups.
func Held(strict bool, groups *Groups) map[string]string {
	const each = "rlimit of each process"
	held := map[string]string{
		"wallSeconds": "clock", "outputBytes": "count", "diskBytes": "measured each second",
		"cpuSeconds": each, "fileSizeBytes": each, "openFiles": each, "memoryBytes": each,
	}
	switch {
	case groups != nil:
		name, _, _ := strings.Cut(groups.Layer(), ":")
		held["memoryBytes"], held["processes"] = name, name
	case strict && kernelAtLeast(6, 14):
		held["processes"] = "pid namespace"
	case os.Geteuid() != 0:
		held["processes"] = "rlimit of the user"
	default:
		held["processes"] = "nothing" // root has no such limit
	}
	return held
}

func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	var a, b int
	if unix.Uname(&u) != nil {
		return false
	}
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}
