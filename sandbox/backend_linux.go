package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// cage is the Backend of Linux.
type cage struct {
	opts    Options
	runtime string // physical
	own     bool   // runtime was made here
	probe   func() Report

	mu        sync.Mutex
	launchers map[string]*launcher // guarded by mu; by session, profile and template
	closed    bool                 // guarded by mu
	prepared  map[string]*prepared // guarded by mu; by session, profile and settings
}

// prepared is what calls with the same settings share: resolving some hundred
// configured paths for each of them would cost more than the call.
type prepared struct {
	settings Settings
	rules    *Rules
	env      []string

	mu        sync.Mutex
	templates map[string]template // guarded by mu; by what is shown besides
}

// template is a child.Template on the wire, with its key among the launchers.
type template struct {
	body []byte
	key  string
}

// maxPrepared bounds the memory that ever new settings can take.
const maxPrepared = 256

// idle is how long a launcher waits for the next call of its session.
const idle = 5 * time.Minute

// NewBackend prepares the cage of this host. Nothing is started before the first
// call or Probe.
func NewBackend(o Options) (Backend, error) {
	c := &cage{opts: o, launchers: map[string]*launcher{}, prepared: map[string]*prepared{}}
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
		tmp, err := os.MkdirTemp("", "sandboxd-")
		if err != nil {
			return nil, fmt.Errorf("make a runtime directory: %w", err)
		}
		dir, c.own = tmp, true
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the runtime directory %q: %w", dir, err)
	}
	physical, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("resolve the runtime directory %q: %w", dir, err)
	}
	c.runtime = physical
	c.opts.Private = append(slices.Clone(o.Private), physical)
	c.probe = sync.OnceValue(c.tryLayers)
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
	rep.Profile = profile
	if err := rep.require(s); err != nil {
		return nil, err
	}
	p, err := c.prepare(session, profile, s)
	if err != nil {
		return nil, err
	}
	return &box{cage: c, session: session, profile: profile, prepared: p, settings: p.settings, rules: p.rules, report: rep, running: map[*proc]bool{}}, nil
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
	p = &prepared{settings: n, rules: NewRules(n), env: environment(os.Environ(), c.opts.Home, n), templates: map[string]template{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.prepared) >= maxPrepared {
		clear(c.prepared)
	}
	c.prepared[key] = p
	return p, nil
}

// Forget ends what runs in a session and removes its private files.
func (c *cage) Forget(session string) error {
	c.mu.Lock()
	for key, l := range c.launchers {
		if l.session == session {
			delete(c.launchers, key)
			defer l.close()
		}
	}
	c.mu.Unlock()
	return os.RemoveAll(c.sessionDir(session))
}

// Close ends every call.
func (c *cage) Close() error {
	c.mu.Lock()
	c.closed = true
	all := c.launchers
	c.launchers = map[string]*launcher{}
	c.mu.Unlock()
	for _, l := range all {
		l.close()
	}
	if c.own {
		return os.RemoveAll(c.runtime)
	}
	entries, err := os.ReadDir(c.runtime)
	for _, e := range entries {
		if len(e.Name()) > 2 && e.Name()[:2] == "s-" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(c.runtime, e.Name())))
		}
	}
	return err
}

// sessionDir holds the private /tmp and the caches of a session.
func (c *cage) sessionDir(session string) string {
	sum := sha256.Sum256([]byte(session))
	return filepath.Join(c.runtime, "s-"+hex.EncodeToString(sum[:8]))
}

func (c *cage) makeSessionDir(session string) (string, error) {
	dir := c.sessionDir(session)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the private directory of a session: %w", err)
	}
	for _, name := range []string{"root", "tmp", "vartmp", "cache"} {
		p := filepath.Join(dir, name)
		if err := os.Mkdir(p, 0o700); err == nil && name != "root" {
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
func (c *cage) template(session, profile string, s Settings, show []string) (child.Template, error) {
	dir, err := c.makeSessionDir(session)
	if err != nil {
		return child.Template{}, err
	}
	t := child.Template{
		Profile: profile, Scratch: dir, Home: c.opts.Home,
		Read: s.AllowedReadPaths, Write: s.AllowedWritePaths, WriteAll: len(s.AllowedWritePaths) == 0,
		Denied: append(slices.Clone(c.opts.Private), s.DeniedPaths...), Protected: protectedPaths(s),
		Show: append(slices.Clone(c.opts.Roots), show...), AllowBind: s.Network.AllowLocalBinding,
		Filter: filter(sysRules(true)),
	}
	slices.Sort(t.Show)
	t.Show = slices.Compact(t.Show)
	return t, nil
}

// template is that of a box whose calls start in a directory that is to be shown.
func (b *box) template(show string) (template, error) {
	p := b.prepared
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, ok := p.templates[show]; ok {
		return t, nil
	}
	var more []string
	if show != "" {
		more = append(more, show)
	}
	full, err := b.cage.template(b.session, b.profile, b.settings, more)
	if err != nil {
		return template{}, err
	}
	body, err := json.Marshal(full)
	if err != nil {
		return template{}, err
	}
	sum := sha256.Sum256(body)
	t := template{body, b.session + "\x00" + hex.EncodeToString(sum[:])}
	if len(p.templates) >= maxPrepared {
		clear(p.templates)
	}
	p.templates[show] = t
	return t, nil
}

// launcher gives the process that serves such calls, and starts it when there is
// none. The caller holds it until release.
func (c *cage) launcher(ctx context.Context, session string, t template) (*launcher, error) {
	key := t.key
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("the sandbox backend is closed")
	}
	if l := c.launchers[key]; l != nil && l.hold() {
		return l, nil
	}
	if _, err := c.makeSessionDir(session); err != nil {
		return nil, err
	}
	l, err := startLauncher(ctx, c.opts.Child, t.body, c.opts.NoUserns)
	if err != nil {
		return nil, err
	}
	l.session = session
	l.hold()
	l.onIdle = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.launchers[key] == l {
			delete(c.launchers, key)
		}
	}
	c.launchers[key] = l
	return l, nil
}
