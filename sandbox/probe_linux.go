package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tryLayers finds out what holds by building a root as every session gets it and
// by asking the kernel. What fails is named with its reason.
func (c *cage) tryLayers() Report {
	var r Report
	lack := func(layer, why string) {
		r.Missing = append(r.Missing, layer+": "+why)
		if c.opts.OnMissing != nil {
			c.opts.OnMissing(layer + ": " + why)
		}
	}
	c.tryGroups()
	err := c.tryNamespaces()
	if err != nil && c.groups != nil {
		// Perhaps it is they.
		groups := c.groups
		c.groups = nil
		if again := c.tryNamespaces(); again == nil {
			groups.remove()
			c.noGroups = err.Error()
			err = nil
		} else {
			c.groups = groups
		}
	}
	if err != nil && os.Geteuid() == 0 && !c.opts.NoUserns {
		// Root can have the other namespaces without one for users; the
		// capabilities are dropped in the call either way.
		c.opts.NoUserns = true
		lack("userns", err.Error())
		err = c.tryNamespaces()
	}
	switch {
	case err != nil && c.opts.NoUserns:
		lack("netns", err.Error())
	case err != nil:
		lack("userns", err.Error())
		lack("netns", "needs a user namespace")
	default:
		if !c.opts.NoUserns {
			r.Layers = append(r.Layers, "userns")
		}
		r.Layers = append(r.Layers, "mountns", "pidns", "ipcns", "netns", "utsns")
	}
	abi, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		lack("landlock", errno.Error())
	} else {
		r.Landlock = int(abi)
		r.Layers = append(r.Layers, fmt.Sprintf("landlock:%d", abi))
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	const getActionAvail = 2
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, getActionAvail, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
		lack("seccomp", errno.Error())
	} else {
		r.Layers = append(r.Layers, "seccomp")
	}
	r.Layers = append(r.Layers, "rlimits")
	if c.groups != nil {
		r.Layers = append(r.Layers, c.groups.layer())
	}
	if c.groups == nil || c.groups.version != "v2" {
		lack("cgroup2", c.noGroups)
	}
	return r
}

// limitsHeldBy says who counts for a call of a profile.
func (c *cage) limitsHeldBy(profile string) map[string]string {
	const each = "rlimit of each process"
	held := map[string]string{
		"wallSeconds": "clock", "outputBytes": "count", "diskBytes": "measured each second",
		"cpuSeconds": each, "fileSizeBytes": each, "openFiles": each, "memoryBytes": each,
	}
	switch {
	case c.groups != nil:
		name, _, _ := strings.Cut(c.groups.layer(), ":")
		held["memoryBytes"], held["processes"] = name, name
	case profile == "strict" && kernelAtLeast(6, 14):
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

// tryGroups finds out who counts memory and processes of a call together.
func (c *cage) tryGroups() {
	if c.opts.NoCgroups {
		c.noGroups = "switched off"
		return
	}
	g, err := newGroupTree()
	if err != nil {
		c.noGroups = err.Error() + "; limits hold for each process, by rlimits"
		return
	}
	c.groups = g
	if g.version != "v2" {
		c.noGroups = "this host counts memory and processes with cgroup v1"
	}
}

func (c *cage) tryNamespaces() error {
	const session = "probe"
	t, err := c.template(session, "strict", Settings{AllowedWritePaths: []string{nowhere}}, nil)
	if err != nil {
		return err
	}
	defer os.RemoveAll(c.sessionDir(session))
	body, err := json.Marshal(t)
	if err != nil {
		return err
	}
	l, err := startLauncher(c.opts.Child, c.opts.NoUserns, c.groups)
	if err != nil {
		return err
	}
	l.onGone = func() {}
	if err := l.serve(context.Background(), body); err != nil {
		return err
	}
	l.close()
	return nil
}

// cageable reports whether programs can be confined at all.
func (r Report) cageable() error {
	for _, m := range r.Missing {
		for _, must := range []string{"netns: ", "seccomp: "} {
			if why, ok := strings.CutPrefix(m, must); ok {
				return &MissingError{Layer: strings.TrimSuffix(must, ": "), Why: why}
			}
		}
	}
	if len(r.Layers) == 0 {
		return errors.New("no sandbox layer holds on this host")
	}
	return nil
}
