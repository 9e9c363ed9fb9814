package sandbox

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// The launchers of all sessions: which there are, which stands by, and which go.

// starting is a launcher that is being made. Every call that wants it waits, as long
// as its own context lets it; the start itself belongs to none of them.
type starting struct {
	session string
	stop    context.CancelFunc
	done    chan struct{}
	err     error // after done
}

// launcher gives the process that serves such calls, and starts it when there is
// none, for a first call. The caller holds it until release.
func (c *cage) launcher(ctx context.Context, session string, t template, first child.Request) (*launcher, error) {
	for {
		l, s, err := c.find(session, t, first)
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-s.done:
			if s.err != nil {
				return nil, s.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// find gives the launcher, held, or the start to wait for. A start may take long, and
// calls of other sessions do not wait for it: c.mu is held for the maps alone.
func (c *cage) find(session string, t template, first child.Request) (*launcher, *starting, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, errors.New("the sandbox backend is closed")
	}
	if l := c.launchers[t.key]; l != nil && l.hold() {
		return l, nil, nil
	}
	s := c.starts[t.key]
	if s == nil {
		ctx, stop := context.WithCancel(context.Background())
		s = &starting{session: session, stop: stop, done: make(chan struct{})}
		c.starts[t.key] = s
		if c.bare {
			c.replace(session)
		}
		c.makeRoom()
		go func() {
			defer stop()
			l, err := c.startFor(ctx, session, t, first)
			c.started(s, t.key, l, err)
		}()
	}
	return nil, s, nil
}

// startFor makes the launcher of a session.
func (c *cage) startFor(ctx context.Context, session string, t template, first child.Request) (*launcher, error) {
	if _, err := c.makeSessionDir(session); err != nil {
		return nil, err
	}
	if t.over != "" {
		if err := makeOver(t.over); err != nil {
			return nil, err
		}
	}
	l, err := c.newLauncher()
	if err != nil {
		return nil, err
	}
	l.session = session
	l.onGone = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.launchers[t.key] == l {
			delete(c.launchers, t.key)
		}
	}
	if err := l.serve(ctx, t, first); err != nil {
		if ctx.Err() != nil {
			err = errLauncherGone
		}
		return nil, err
	}
	return l, nil
}

// started ends a start, and makes its launcher known unless it has died already or
// nobody may use it any more.
//
// From the second session on the next launcher is started ahead: starting it is most of
// what a new session waits for. That is done now, for it would slow this one down.
func (c *cage) started(s *starting, key string, l *launcher, err error) {
	c.mu.Lock()
	if c.used && !c.closed {
		c.background.Go(c.standBy)
	}
	c.used = true
	delete(c.starts, key)
	known := err == nil && !c.closed && l.hold()
	if known {
		c.launchers[key] = l
		l.release()
	}
	c.mu.Unlock()
	if err == nil && !known {
		err = errLauncherGone
		l.close()
	}
	s.err = err
	close(s.done)
}

// stopStarts ends what is being started for these sessions, and waits until it is gone.
func (c *cage) stopStarts(of func(session string) bool) {
	var stopped []*starting
	c.mu.Lock()
	for _, s := range c.starts {
		if of(s.session) {
			s.stop()
			stopped = append(stopped, s)
		}
	}
	c.mu.Unlock()
	for _, s := range stopped {
		<-s.done
	}
}

// newLauncher gives a process that belongs to no session yet.
func (c *cage) newLauncher() (*launcher, error) {
	c.mu.Lock()
	l := c.standby
	c.standby = nil
	c.mu.Unlock()
	if l != nil && !l.gone() {
		return l, nil
	}
	return c.start()
}

// rootDir is what every launcher builds its root on, in its own namespace.
func (c *cage) rootDir() string { return filepath.Join(c.runtime, rootName) }

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

// makeRoom ends the launcher that has rested longest when there are too many, with
// those that are being started.
// c.mu is held.
func (c *cage) makeRoom() {
	for len(c.launchers)+len(c.starts) > c.maxLaunchers {
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
