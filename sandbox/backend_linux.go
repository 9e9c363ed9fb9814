package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/sandbox/later"
	"github.com/sandboxd/sandboxd/sandbox/launch"
	"github.com/sandboxd/sandboxd/sandbox/limit"
	"github.com/sandboxd/sandboxd/sandbox/seccomp"
	"github.com/sandboxd/sandboxd/sandbox/view"
)

// cage is the Backend of Linux.
type cage struct {
	opts         Options
	runtime      string   // directory with the private files of sessions; without links
	lock         *os.File // on a runtime directory that was made here, else nil
	probe        func() Report
	binds        func() error
	noNamespaces bool // set by probe: Landlock alone protects files

	groups   *limit.Groups // set by probe; nil without control groups
	noGroups string        // set by probe: why version 2 is not used

	filters *seccomp.Filters
	sockets *view.Sockets
	disk    *limit.Disk
	pool    *launch.Pool
	later   *later.Index

	mu       sync.Mutex
	closed   bool                 // guarded by mu
	prepared map[string]*prepared // guarded by mu; by session, profile and settings
	lasting  map[*proc]string     // guarded by mu; those with a name, and their session
}

// NewBackend prepares the sandbox of this host. It starts no process before the first call
// or Probe.
func NewBackend(o Options) (Backend, error) {
	c := &cage{
		opts: o, filters: seccomp.New(), sockets: view.NewSockets(), disk: limit.NewDisk(o.Reserve),
		later:    later.NewIndex(),
		prepared: map[string]*prepared{}, lasting: map[*proc]string{},
	}
	if c.opts.Child == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the running program: %w", err)
		}
		c.opts.Child = self
	}
	if c.opts.Dialer == nil {
		c.opts.Dialer = &egress.Dialer{}
	}
	if c.opts.Home == "" {
		c.opts.Home, _ = os.UserHomeDir()
	}
	c.opts.Home = physicalHome(c.opts.Home)
	dir := o.Runtime
	if dir == "" {
		var err error
		if dir, c.lock, err = makeRuntime(os.TempDir()); err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the runtime directory %q: %w", dir, err)
	}
	physical, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("resolve the runtime directory %q: %w", dir, err)
	}
	c.runtime = physical
	if err := os.Mkdir(filepath.Join(c.runtime, rootName), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make the directory for roots: %w", err)
	}
	c.opts.Private = append(slices.Clone(o.Private), physical)
	c.probe, c.binds = sync.OnceValue(c.tryLayers), sync.OnceValue(c.tryBinding)
	c.pool = launch.NewPool(c.startLauncher)
	return c, nil
}

// physicalHome returns a home without links in its path. It returns "" if the home cannot be used.
func physicalHome(home string) string {
	physical, err := filepath.EvalSymlinks(home)
	if err != nil || !filepath.IsAbs(physical) {
		return ""
	}
	return physical
}

// startLauncher starts a launcher in the namespaces that this host gives.
func (c *cage) startLauncher() (*launch.Launcher, error) {
	return launch.Start(launch.Options{
		Child: c.opts.Child, Root: filepath.Join(c.runtime, rootName),
		NoUserns: c.opts.NoUserns, NoNamespaces: c.noNamespaces, Groups: c.groups,
	})
}

// Probe tries every layer once and remembers the answer.
func (c *cage) Probe() Report { return c.probe().clone() }

// Box binds one call to its settings. An unknown profile is an error.
func (c *cage) Box(_ context.Context, session string, profile Profile, s guard.Settings) (Box, error) {
	if profile == "" {
		profile = ProfileStrict
	}
	if !slices.Contains(Profiles, profile) {
		return nil, fmt.Errorf("sandbox profile %q is not known", profile)
	}
	rep := c.Probe()
	rep.Profile, rep.Limits = profile, limit.Held(profile == ProfileStrict, c.groups)
	if err := rep.Require(s); err != nil {
		return nil, err
	}
	b := &box{cage: c, session: session, profile: profile, settings: s, boxState: &boxState{report: rep}}
	b.judge = bySettings(s.Network)
	b.running = map[*proc]bool{}
	if err := b.become(Daemon()); err != nil {
		return nil, err
	}
	if c.noNamespaces {
		p := b.prepared
		b.report.Missing = append(b.report.Missing, p.view.Narrowed(keptPaths(p.trees.State()))...)
		if s.Network.Reaches() {
			b.lacks("egress: programs open no sockets without network namespaces, so they reach no host")
		}
	}
	return b, nil
}

// prepared is what calls of one user with the same settings share. To resolve some hundred configured paths again
// for each call would cost more than the call.
type prepared struct {
	user     User
	dir      string         // the private directory of the user in this session
	settings guard.Settings // normalised
	rules    *guard.Rules
	view     *view.View
	trees    *later.Trees

	mu     sync.Mutex
	roots  map[string]root // guarded by mu; by the additional directory that is shown
	kept   []launch.Kept   // guarded by mu; the last answer of keep
	keptOf *later.State    // guarded by mu; the state from which kept was made
	// authority signs for the hosts whose TLS is intercepted. It is nil until there is one. Guarded by mu.
	authority *egress.Authority
}

// maxPrepared bounds the memory if the settings of each call differ.
const maxPrepared = 256

func (c *cage) prepare(session string, profile Profile, s guard.Settings, u User) (*prepared, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("sandbox settings: %w", err)
	}
	work := c.workspaces()
	key := strings.Join(append([]string{session, string(profile), u.key(), string(text)}, work...), "\x00")
	c.mu.Lock()
	p := c.prepared[key]
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	n, _, err := s.Normalise()
	if err != nil {
		return nil, fmt.Errorf("sandbox settings: %w", err)
	}
	rules := guard.NewRules(n)
	p = &prepared{user: u, dir: c.sessionDir(session, u), settings: n, rules: rules, roots: map[string]root{}}
	p.view = c.view(p.dir, u, n, rules, work)
	p.trees = c.later.Trees(slices.DeleteFunc(worked(n, work), func(w string) bool {
		return w == "/" || w == guard.NoPath || guard.Within(w, "/dev") || p.view.Private(w)
	}))
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.prepared) >= maxPrepared {
		clear(c.prepared)
	}
	c.prepared[key] = p
	return p, nil
}

// workspaces returns the workspaces that exist now.
func (c *cage) workspaces() []string {
	if c.opts.Roots == nil {
		return nil
	}
	return c.opts.Roots()
}

// view returns what programs of a user see under normalised settings.
func (c *cage) view(dir string, u User, s guard.Settings, rules *guard.Rules, work []string) *view.View {
	o := view.Options{Home: c.opts.Home, Private: c.opts.Private, Roots: work, NoNamespaces: c.noNamespaces}
	if !u.own {
		o.Home = physicalHome(u.home)
	}
	return view.New(o, s, rules, dir, u.environ(os.Environ()))
}

// worked returns the writable trees in which a person works. If everything may be written, those are the workspaces,
// because permission to write elsewhere is no permission to decide what runs outside of the sandbox later.
func worked(s guard.Settings, workspaces []string) []string {
	if view.WriteAll(s) {
		return slices.Concat(s.AllowedWritePaths, workspaces)
	}
	return slices.Clone(s.AllowedWritePaths)
}

// Forget ends what runs in a session, and removes its private files.
func (c *cage) Forget(session string) error {
	c.pool.Forget(session)
	c.mu.Lock()
	for key := range c.prepared {
		if strings.HasPrefix(key, session+"\x00") {
			delete(c.prepared, key)
		}
	}
	c.mu.Unlock()
	return c.removeSessionDirs(session)
}

// Close ends every call, and removes all private files.
func (c *cage) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.pool.Close()
	c.sockets.Close()
	c.disk.Close()
	c.later.Close()
	if c.groups != nil {
		c.groups.Remove()
	}
	if c.lock != nil {
		defer c.lock.Close()
		return removeTree(c.runtime)
	}
	entries, err := os.ReadDir(c.runtime)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), sessionPrefix) {
			err = errors.Join(err, removeTree(filepath.Join(c.runtime, e.Name())))
		}
	}
	return err
}
