package launch

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox/identity"
)

// namespaces returns those of a session. Ids keep their numbers inside, so that files have the right owners and git
// trusts its repositories.
func namespaces(noUserns bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Setsid:     true, // away from the daemon's terminal
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
	}
	if noUserns {
		return a
	}
	a.Cloneflags |= unix.CLONE_NEWUSER
	if os.Geteuid() != 0 {
		// The launcher keeps its uid, so execve would take the capabilities that the new
		// user namespace gave it. Ambient ones stay; they hold in that namespace only.
		a.AmbientCaps = []uintptr{
			unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_SETPCAP, unix.CAP_KILL,
			unix.CAP_SYS_PTRACE, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH,
		}
	}
	if identity.Takes() {
		if a.AmbientCaps != nil {
			// To start programs as others, and to give them their directories.
			a.AmbientCaps = append(a.AmbientCaps, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_CHOWN, unix.CAP_FOWNER)
		}
		a.UidMappings, a.GidMappings = sameIDs("/proc/self/uid_map"), sameIDs("/proc/self/gid_map")
		a.GidMappingsEnableSetgroups = true
	}
	if a.UidMappings == nil || a.GidMappings == nil {
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		a.GidMappingsEnableSetgroups = false
	}
	return a
}

// sameIDs maps every id that this process knows to itself.
func sameIDs(file string) []syscall.SysProcIDMap {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var out []syscall.SysProcIDMap
	for line := range strings.Lines(string(b)) {
		var inside, outside, n int
		if _, err := fmt.Sscan(line, &inside, &outside, &n); err != nil {
			return nil
		}
		out = append(out, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: n})
	}
	return out
}
