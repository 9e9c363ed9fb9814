package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/launch"
	"github.com/sandboxd/sandboxd/sandbox/limit"
	"golang.org/x/sys/unix"
)

// tryLayers finds out which layers hold: it builds a root as a session gets it, and asks the
// kernel. It reports each layer that is missing, with the reason.
func (c *cage) tryLayers() Report {
	var r Report
	lack := func(layer, why string) {
		r.Missing = append(r.Missing, layer+": "+why)
		if c.opts.OnMissing != nil {
			c.opts.OnMissing(layer + ": " + why)
		}
	}
	c.tryGroups()
	err := c.tryLevel()
	if err != nil && os.Geteuid() == 0 && !c.opts.NoUserns && !c.opts.NoNamespaces {
		// Root can make the other namespaces without a user namespace. A call drops all
		// capabilities either way.
		c.opts.NoUserns = true
		if again := c.tryLevel(); again == nil {
			lack("userns", err.Error())
			err = nil
		}
	}
	if err == nil {
		r.Isolation = "namespaces"
		if !c.opts.NoUserns {
			r.Layers = append(r.Layers, "userns")
		}
		r.Layers = append(r.Layers, "mountns", "pidns", "ipcns", "netns", "utsns")
	} else {
		lack("userns", err.Error())
		c.noNamespaces = true
		if why := c.tryLevel(); why != nil {
			lack("netns", "needs namespaces, and the isolation level without them does not hold: "+why.Error())
		} else {
			r.Isolation = "landlock"
			for _, l := range withoutNamespaces {
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
		r.Layers = append(r.Layers, c.groups.Layer())
	}
	if c.groups == nil || c.groups.Version != "v2" {
		lack("cgroup2", c.noGroups)
	}
	return r
}

// withoutNamespaces are the layers that are missing without namespaces, for the report.
var withoutNamespaces = []struct{ layer, why string }{
	{"netns", "no socket can be opened at all, not even on a loopback"},
	{"mountns", "/tmp is out of reach and TMPDIR names a private directory; that files exist, their sizes and times " +
		"can be seen; modes, owners, times and attributes of files cannot be changed"},
	{"pidns", "numbers of other processes can be told from free ones; Landlock keeps signals and ptrace in; " +
		"most of /proc is out of reach"},
	{"ipcns", "System V and POSIX queues, semaphores and shared memory are refused, and /dev/shm is out of reach"},
	{"utsns", "the name of the host can be seen"},
}

// tryGroups finds out whether control groups can count the memory and processes of a call.
func (c *cage) tryGroups() {
	if c.opts.NoCgroups {
		c.noGroups = "switched off"
		return
	}
	g, err := limit.NewGroups()
	if err != nil {
		c.noGroups = err.Error() + "; limits hold for each process, by rlimits"
		return
	}
	c.groups = g
	if g.Version != "v2" {
		c.noGroups = "this host counts memory and processes with cgroup v1"
	}
}

// tryLevel tries the isolation level that c is set to. If it works only without control
// groups, c continues without them.
func (c *cage) tryLevel() error {
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
	groups.Remove()
	c.noGroups = err.Error()
	return nil
}

// trySession has a launcher build a root, and ends it.
func (c *cage) trySession() error {
	if c.opts.NoNamespaces && !c.noNamespaces {
		return errors.New("switched off")
	}
	const session = "probe"
	s := guard.Settings{AllowedWritePaths: []string{guard.NoPath}}
	p := &prepared{user: Daemon(), dir: c.sessionDir(session, Daemon())}
	p.view = c.view(p.dir, p.user, s, guard.NewRules(s), c.workspaces())
	t, err := c.template(p, ProfileStrict, "", nil)
	if err != nil {
		return err
	}
	defer os.RemoveAll(p.dir)
	body, err := json.Marshal(t)
	if err != nil {
		return err
	}
	l, err := c.startLauncher()
	if err != nil {
		return err
	}
	if err := l.Serve(context.Background(), launch.Config{Template: body}, launch.Entry{}); err != nil {
		return err
	}
	l.Close()
	return nil
}

// cageable returns an error if programs cannot be confined at all.
func (r Report) cageable() error {
	must := []string{"seccomp: "}
	if r.Isolation != "landlock" {
		must = append(must, "netns: ")
	}
	for _, m := range r.Missing {
		for _, layer := range must {
			if why, ok := strings.CutPrefix(m, layer); ok {
				return &MissingError{Layer: strings.TrimSuffix(layer, ": "), Why: why}
			}
		}
	}
	if r.Isolation == "" {
		return errors.New("no sandbox layer holds on this host")
	}
	return nil
}
