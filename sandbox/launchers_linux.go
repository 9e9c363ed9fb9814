package sandbox

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"time"
)

// The launchers of all sessions: which there are, which stands by, and which go.

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
	if t.over != "" {
		if err := makeBuilt(t.over); err != nil {
			return nil, err
		}
	}
	if c.bare {
		c.replace(session)
	}
	c.makeRoom()
	l, err := c.newLauncher()
	if err != nil {
		return nil, err
	}
	l.session = session
	l.hold()
	l.onGone = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.launchers[key] == l {
			delete(c.launchers, key)
		}
	}
	if err := l.serve(ctx, t.body); err != nil {
		return nil, err
	}
	c.launchers[key] = l
	return l, nil
}

// newLauncher gives a process that belongs to no session yet. From the second on,
// one is started ahead: starting it is most of what a new session waits for. c.mu
// is held.
func (c *cage) newLauncher() (*launcher, error) {
	l := c.standby
	c.standby = nil
	if c.used {
		c.background.Go(c.standBy)
	}
	c.used = true
	if l != nil && !l.gone() {
		return l, nil
	}
	return c.start()
}

// rootDir is what every launcher builds its root on, in its own namespace.
func (c *cage) rootDir() string { return filepath.Join(c.runtime, "root") }

// start gives a launcher in the namespaces that this host has.
func (c *cage) start() (*launcher, error) {
	if c.bare {
		return startLauncher(c.opts.Child, "", &syscall.SysProcAttr{Setsid: true}, c.groups)
	}
	return startLauncher(c.opts.Child, c.rootDir(), sessionNamespaces(c.opts.NoUserns), c.groups)
}

func (c *cage) standBy() {
	l, err := c.start()
	if err != nil {
		return // the next session tries for itself, and tells
	}
	c.mu.Lock()
	wanted := c.standby == nil && !c.closed
	if wanted {
		c.standby = l
	}
	c.mu.Unlock()
	if !wanted {
		l.close()
	}
}

// replace ends the launchers of a session whose grants were those of an earlier
// moment. c.mu is held.
func (c *cage) replace(session string) {
	for key, l := range c.launchers {
		if l.session == session && l.retire(0) {
			delete(c.launchers, key)
			go l.close()
		}
	}
}

// makeRoom ends the launcher that has rested longest when there are too many.
// c.mu is held.
func (c *cage) makeRoom() {
	for len(c.launchers) >= c.maxLaunchers {
		oldest, since := "", time.Time{}
		for key, l := range c.launchers {
			if at, rests := l.resting(); rests && (oldest == "" || at.Before(since)) {
				oldest, since = key, at
			}
		}
		l := c.launchers[oldest]
		if l == nil {
			return // all of them work
		}
		delete(c.launchers, oldest)
		if l.retire(0) {
			go l.close()
		}
	}
}

// retire ends the launchers that have not been used for a while. One ticker for
// all of them: a timer that is set and stopped by each call wakes a thread.
func (c *cage) retire() {
	tick := time.NewTicker(idleTime / 10)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
			c.retireUnused(idleTime)
		}
	}
}

func (c *cage) retireUnused(after time.Duration) {
	c.mu.Lock()
	var old []*launcher
	for key, l := range c.launchers {
		if l.retire(after) {
			delete(c.launchers, key)
			old = append(old, l)
		}
	}
	c.mu.Unlock()
	for _, l := range old {
		l.close()
	}
}
