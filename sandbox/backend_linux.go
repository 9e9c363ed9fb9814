package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// cage is the Backend of Linux.
type cage struct {
	opts    Options
	runtime string        // physical
	lock    *os.File      // of a runtime directory that was made here, else nil
	stop    chan struct{} // closed by Close
	probe   func() Report
	bare    bool // set by probe: there are no namespaces, and Landlock holds alone
	sockets *sockets

	filters func(bare bool) (plain, listen child.Program)

	groups   *groupTree // set by probe; nil without control groups
	noGroups string     // why not version 2

	freeSpace func(paths []string) map[uint64]uint64 // by device; a seam for tests

	mu           sync.Mutex
	writing      map[*proc]bool       // guarded by mu: calls that are measured
	watching     bool                 // guarded by mu: measure runs
	launchers    map[string]*launcher // guarded by mu; by session, profile and template
	starts       map[string]*starting // guarded by mu; by the same
	maxLaunchers int
	standby      *launcher // guarded by mu; of no session yet
	used         bool      // guarded by mu: there was a session
	background   sync.WaitGroup
	closed       bool                 // guarded by mu
	prepared     map[string]*prepared // guarded by mu; by session, profile and settings
}

// prepared is what calls with the same settings share: resolving some hundred
// configured paths for each of them would cost more than the call.
type prepared struct {
	settings Settings
	rules    *Rules
	env      []string
	shown    []string

	mu        sync.Mutex
	templates map[string]template // guarded by mu; by what is shown besides
	gitKnown  []string            // guarded by mu; what gitMore has found, nil before

	looking  sync.Mutex
	guarded  map[string]string // guarded by looking; see box.guardedNow
	lookedAt *child.Places     // guarded by looking; for guarded
}

// template is a child.Template on the wire, with its key among the launchers.
type template struct {
	body   []byte
	key    string
	over   string   // child.Template.Over
	watch  []string // directories of what must be hidden, where they are on the host
	absent []string // named by the settings and not there yet

	guarded map[string]string // box.guardedNow when it was made
}

// maxPrepared bounds the memory that ever new settings can take.
const maxPrepared = 256

const (
	// idleTime is how long a launcher waits for the next call of its session.
	idleTime = 5 * time.Minute
	// maxLaunchers may be there at once; above it those that rest are ended, the
	// one that has rested longest first.
	maxLaunchers = 64
)

// NewBackend prepares the cage of this host. Nothing is started before the first
// call or Probe.
func NewBackend(o Options) (Backend, error) {
	c := &cage{opts: o, sockets: newSockets(), maxLaunchers: maxLaunchers, freeSpace: freeSpace, writing: map[*proc]bool{}, launchers: map[string]*launcher{}, starts: map[string]*starting{}, prepared: map[string]*prepared{}}
	if c.opts.Child == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the running program: %w", err)
		}
		c.opts.Child = self
	}
	if c.opts.Home == "" {
		c.opts.Home, _ = os.UserHomeDir()
	}
	if home, err := filepath.EvalSymlinks(c.opts.Home); err == nil {
		c.opts.Home = home
	} else {
		c.opts.Home = ""
	}
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
	if err := os.Mkdir(c.rootDir(), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make the place of the roots: %w", err)
	}
	c.stop = make(chan struct{})
	go c.retire()
	c.opts.Private = append(slices.Clone(o.Private), physical)
	c.probe = sync.OnceValue(c.tryLayers)
	c.filters = compiled()
	return c, nil
}

// Probe tries every layer once and remembers the answer.
func (c *cage) Probe() Report { return c.probe().clone() }

// Box binds one call to its settings. An unknown profile is an error.
func (c *cage) Box(_ context.Context, session, profile string, s Settings) (Box, error) {
	if profile == "" {
		profile = "strict"
	}
	if profile != "strict" && profile != "light" {
		return nil, fmt.Errorf("sandbox profile %q is not known", profile)
	}
	rep := c.Probe()
	rep.Profile, rep.Limits = profile, c.limitsHeldBy(profile)
	if err := rep.require(s); err != nil {
		return nil, err
	}
	p, err := c.prepare(session, profile, s)
	if err != nil {
		return nil, err
	}
	if c.bare {
		rep.Missing = append(rep.Missing, c.narrowed(p)...)
	}
	return &box{
		cage: c, session: session, profile: profile, prepared: p, settings: p.settings, rules: p.rules, report: rep,
		private: sync.OnceValues(func() (string, error) { return c.makeSessionDir(session) }), running: map[*proc]bool{},
	}, nil
}

func (c *cage) prepare(session, profile string, s Settings) (*prepared, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("sandbox settings: %w", err)
	}
	key := session + "\x00" + profile + "\x00" + string(text)
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
	p = &prepared{settings: n, rules: NewRules(n), env: environment(os.Environ(), c.opts.Home, n), shown: c.shown(n), templates: map[string]template{}}
	if c.bare {
		p.env = bareEnvironment(p.env, c.sessionDir(session))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.prepared) >= maxPrepared {
		clear(c.prepared)
	}
	c.prepared[key] = p
	return p, nil
}

// Forget ends the launchers of a session, and what was prepared for it.
func (c *cage) Forget(session string) error {
	c.stopStarts(func(of string) bool { return of == session })
	c.mu.Lock()
	var mine []*launcher
	for key, l := range c.launchers {
		if l.session == session {
			delete(c.launchers, key)
			mine = append(mine, l)
		}
	}
	for key := range c.prepared {
		if strings.HasPrefix(key, session+"\x00") {
			delete(c.prepared, key)
		}
	}
	c.mu.Unlock()
	for _, l := range mine {
		l.close()
	}
	return removeTree(c.sessionDir(session))
}

// removeTree removes what programs have made, also directories that they closed to
// everybody. Nothing runs there any more.
func removeTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(path, 0o700) // this is called before the directory is read
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// Close ends every call.
func (c *cage) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	close(c.stop)
	c.mu.Unlock()
	c.stopStarts(func(string) bool { return true })
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.launchers))
	if c.standby != nil {
		all = append(all, c.standby)
	}
	c.launchers, c.standby = map[string]*launcher{}, nil
	c.mu.Unlock()
	for _, l := range all {
		l.close()
	}
	c.sockets.close()
	c.background.Wait()
	if c.groups != nil {
		c.groups.remove()
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

// sessionDir holds the private /tmp and the caches of a session.
func (c *cage) sessionDir(session string) string {
	sum := sha256.Sum256([]byte(session))
	return filepath.Join(c.runtime, sessionPrefix+hex.EncodeToString(sum[:8]))
}

func (c *cage) makeSessionDir(session string) (string, error) {
	dir := c.sessionDir(session)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the private directory of a session: %w", err)
	}
	for _, name := range []string{"tmp", "vartmp", "cache"} {
		p := filepath.Join(dir, name)
		if err := os.Mkdir(p, 0o700); err == nil {
			err = os.Chmod(p, 0o777|os.ModeSticky) // as /tmp is everywhere; the parent keeps others out
			if err != nil {
				return "", err
			}
		} else if err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	return dir, nil
}

// template is what a launcher builds for these settings.
func (c *cage) template(session, profile string, s Settings, show, git []string) (child.Template, error) {
	dir, err := c.makeSessionDir(session)
	if err != nil {
		return child.Template{}, err
	}
	t := c.describe(s, show, git)
	t.Profile, t.Scratch = profile, dir
	t.Filter, t.Listen = c.filters(c.bare)
	if c.bare {
		bare := child.Template{Profile: profile, Scratch: dir, Filter: t.Filter, Listen: t.Listen, Bare: true}
		bare.Grants, _ = grants(t)
		return bare, nil
	}
	t.Lower = c.lower(s)
	if t.Over, err = overOf(dir, t); err != nil {
		return child.Template{}, err
	}
	if err := makeOver(t.Over); err != nil {
		return child.Template{}, err
	}
	if !t.WriteAll {
		pipes, err := fifos(t.Show, t.Write, t.Denied, maxShownEntries)
		if err != nil {
			return child.Template{}, err
		}
		t.Denied = append(t.Denied, pipes...)
	}
	return t, nil
}

// describe says what there is for these settings, without making anything. git is
// protected besides.
func (c *cage) describe(s Settings, show, git []string) child.Template {
	t := child.Template{
		Read: s.AllowedReadPaths, Write: c.readable(s.AllowedWritePaths, s.AllowedReadPaths), WriteAll: writeAll(s),
		Denied: append(slices.Clone(c.opts.Private), s.DeniedPaths...), Protected: c.protected(s, git),
		Show: c.readable(append(c.shown(s), show...), s.AllowedReadPaths), AllowBind: s.Network.AllowLocalBinding,
	}
	slices.Sort(t.Show)
	t.Show = slices.DeleteFunc(slices.Compact(t.Show), func(p string) bool { return slices.Contains(t.Write, p) }) // those are bound by themselves
	return t
}

// template is that of a box whose calls start in a directory that is to be shown.
// It is made anew when there is something else to protect, whoever has made that.
func (b *box) template(show string, guarded map[string]string) (template, error) {
	p := b.prepared
	git := b.gitMore()
	p.mu.Lock()
	defer p.mu.Unlock()
	// Without mounts what is denied depends on what is there now.
	if t, ok := p.templates[show]; ok && !b.cage.bare && maps.Equal(t.guarded, guarded) && !slices.ContainsFunc(t.absent, exists) {
		return t, nil
	}
	var more []string
	if show != "" {
		more = append(more, show)
	}
	full, err := b.cage.template(b.session, b.profile, b.settings, more, git)
	if err != nil {
		return template{}, err
	}
	body, err := json.Marshal(full)
	if err != nil {
		return template{}, err
	}
	t := template{body: body, over: full.Over, guarded: guarded}
	for _, path := range slices.Concat(full.Denied, full.Protected) {
		t.watch = append(t.watch, b.hostShowing(filepath.Dir(path), show))
	}
	for _, path := range slices.Concat(full.Read, full.Write, full.Show) {
		if path != nowhere && !exists(path) {
			t.absent = append(t.absent, path)
		}
	}
	// What comes to be is bound by another launcher.
	sum := sha256.Sum256(append(body, strings.Join(t.absent, "\x00")...))
	t.key = b.session + "\x00" + hex.EncodeToString(sum[:])
	if len(p.templates) >= maxPrepared {
		clear(p.templates)
	}
	p.templates[show] = t
	return t, nil
}
