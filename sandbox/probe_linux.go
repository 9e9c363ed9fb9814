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

	"github.com/sandboxd/sandboxd/sandbox/child"
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
	err := c.tryRung()
	if err != nil && os.Geteuid() == 0 && !c.opts.NoUserns && !c.opts.NoNamespaces {
		// Root can have the other namespaces without one for users; the
		// capabilities are dropped in the call either way.
		c.opts.NoUserns = true
		if again := c.tryRung(); again == nil {
			lack("userns", err.Error())
			err = nil
		}
	}
	if err == nil {
		r.Rung = "namespaces"
		if !c.opts.NoUserns {
			r.Layers = append(r.Layers, "userns")
		}
		r.Layers = append(r.Layers, "mountns", "pidns", "ipcns", "netns", "utsns")
	} else {
		lack("userns", err.Error())
		c.bare = true
		if bare := c.tryRung(); bare != nil {
			lack("netns", "needs namespaces, and the rung without them does not hold: "+bare.Error())
		} else {
			r.Rung = "landlock"
			for _, l := range bareLacks {
				lack(l.layer, l.why)
			}
		}
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

// tryRung builds a root on the rung that c is set to. If that works without
// control groups only, it goes on without.
func (c *cage) tryRung() error {
	err := c.trySession()
	if err == nil || c.groups == nil {
		return err
	}
	groups := c.groups
	c.groups = nil
	if c.trySession() != nil {
		c.groups = groups
		return err
	}
	groups.remove()
	c.noGroups = err.Error()
	return nil
}

func (c *cage) trySession() error {
	if c.opts.NoNamespaces && !c.bare {
		return errors.New("switched off")
	}
	const session = "probe"
	t, err := c.template(session, "strict", Settings{AllowedWritePaths: []string{nowhere}}, nil, nil)
	if err != nil {
		return err
	}
	defer os.RemoveAll(c.sessionDir(session))
	body, err := json.Marshal(t)
	if err != nil {
		return err
	}
	l, err := c.start()
	if err != nil {
		return err
	}
	l.onGone = func() {}
	if err := l.serve(context.Background(), template{body: body}, child.Request{}); err != nil {
		return err
	}
	l.close()
	return nil
}

// cageable reports whether programs can be confined at all.
func (r Report) cageable() error {
	must := []string{"seccomp: "}
	if r.Rung != "landlock" {
		must = append(must, "netns: ")
	}
	for _, m := range r.Missing {
		for _, layer := range must {
			if why, ok := strings.CutPrefix(m, layer); ok {
				return &MissingError{Layer: strings.TrimSuffix(layer, ": "), Why: why}
			}
		}
	}
	if r.Rung == "" {
		return errors.New("no sandbox layer holds on this host")
	}
	return nil
}
