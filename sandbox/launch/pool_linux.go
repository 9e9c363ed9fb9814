package launch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// IdleTime is how long a launcher waits for the next call of its session.
	IdleTime = 5 * time.Minute
	// maxLaunchers is the usual Pool.Max.
	maxLaunchers = 64
)

// Pool has the launchers of all sessions.
type Pool struct {
	// Max bounds the launchers that rest: above it, the one that has rested longest is
	// ended. Those that work are never ended for it.
	Max int

	start      func() (*Launcher, error)
	stop       chan struct{}  // closed by Close
	background sync.WaitGroup // starts of the standby launcher

	mu        sync.Mutex
	launchers map[string]*Launcher // guarded by mu; by key
	starts    map[string]*starting // guarded by mu; by key
	standby   *Launcher            // guarded by mu; started ahead, of no session yet
	used      bool                 // guarded by mu: there was a session
	closed    bool                 // guarded by mu
}

// starting is a launcher that is being started. Every call that needs it waits, as long as
// its own context allows; the start belongs to none of them.
type starting struct {
	session string
	stop    context.CancelFunc
	done    chan struct{}
	err     error // after done
}

// NewPool returns a pool that starts launchers with start, which may be called at any time
// and by several goroutines.
func NewPool(start func() (*Launcher, error)) *Pool {
	p := &Pool{
		Max: maxLaunchers, start: start, stop: make(chan struct{}),
		launchers: map[string]*Launcher{}, starts: map[string]*starting{},
	}
	go p.retire()
	return p
}

// Get returns the launcher for a config, and starts it if there is none; then its first
// slot fits a call like first. The caller holds the launcher until Release.
func (p *Pool) Get(ctx context.Context, session string, c Config, first Entry) (*Launcher, error) {
	for {
		l, s, err := p.find(session, c, first)
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-s.done:
			if s.err != nil {
				return nil, s.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// find returns the launcher, held, or the start to wait for. A start may take long, and
// calls of other sessions do not wait for it: p.mu is held only for the maps.
func (p *Pool) find(session string, c Config, first Entry) (*Launcher, *starting, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errors.New("the sandbox backend is closed")
	}
	if l := p.launchers[c.Key]; l != nil && l.hold() {
		return l, nil, nil
	}
	s := p.starts[c.Key]
	if s == nil {
		ctx, stop := context.WithCancel(context.Background())
		s = &starting{session: session, stop: stop, done: make(chan struct{})}
		p.starts[c.Key] = s
		if c.Replaces {
			p.replace(session)
		}
		p.makeRoom()
		go func() {
			defer stop()
			l, err := p.startFor(ctx, session, c, first)
			p.started(s, c.Key, l, err)
		}()
	}
	return nil, s, nil
}

// startFor makes the launcher of a session.
func (p *Pool) startFor(ctx context.Context, session string, c Config, first Entry) (*Launcher, error) {
	if c.Prepare != nil {
		if err := c.Prepare(); err != nil {
			return nil, err
		}
	}
	l, err := p.newLauncher()
	if err != nil {
		return nil, err
	}
	l.session = session
	l.onGone = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.launchers[c.Key] == l {
			delete(p.launchers, c.Key)
		}
	}
	if err := l.Serve(ctx, c, first); err != nil {
		if ctx.Err() != nil {
			err = ErrGone
		}
		return nil, err
	}
	return l, nil
}

// started ends a start. Its launcher becomes known, unless it has died already or nobody
// may use it any more.
//
// From the second session on, the next launcher is started ahead: starting it is most of
// what a new session waits for. It is started now and not earlier, because that would slow
// down the session that was just waiting.
func (p *Pool) started(s *starting, key string, l *Launcher, err error) {
	p.mu.Lock()
	if p.used && !p.closed {
		p.background.Go(p.startAhead)
	}
	p.used = true
	delete(p.starts, key)
	known := err == nil && !p.closed && l.hold()
	if known {
		p.launchers[key] = l
		l.Release()
	}
	p.mu.Unlock()
	if err == nil && !known {
		err = ErrGone
		l.Close()
	}
	s.err = err
	close(s.done)
}

// startAhead starts the standby launcher. An error is ignored: the next session tries
// again, and reports it.
func (p *Pool) startAhead() {
	l, err := p.start()
	if err != nil {
		return
	}
	p.mu.Lock()
	wanted := p.standby == nil && !p.closed
	if wanted {
		p.standby = l
	}
	p.mu.Unlock()
	if !wanted {
		l.Close()
	}
}

// newLauncher returns a launcher that belongs to no session yet.
func (p *Pool) newLauncher() (*Launcher, error) {
	p.mu.Lock()
	l := p.standby
	p.standby = nil
	p.mu.Unlock()
	if l != nil && !l.Gone() && !l.Stopped() {
		return l, nil
	}
	if l != nil {
		l.Close()
	}
	return p.start()
}

// Forget ends the launchers of a session. It returns when they are gone.
func (p *Pool) Forget(session string) {
	p.stopStarts(func(of string) bool { return of == session })
	var mine []*Launcher
	p.mu.Lock()
	for key, l := range p.launchers {
		if l.session == session {
			delete(p.launchers, key)
			mine = append(mine, l)
		}
	}
	p.mu.Unlock()
	for _, l := range mine {
		l.Close()
	}
}

// Close ends all launchers. It returns when they are gone.
func (p *Pool) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	close(p.stop)
	p.mu.Unlock()
	p.stopStarts(func(string) bool { return true })
	all := p.All()
	p.mu.Lock()
	if p.standby != nil {
		all = append(all, p.standby)
	}
	p.launchers, p.standby = map[string]*Launcher{}, nil
	p.mu.Unlock()
	for _, l := range all {
		l.Close()
	}
	p.background.Wait()
}

// All returns the launchers that serve a session.
func (p *Pool) All() []*Launcher {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.launchers))
}

// stopStarts ends the starts for these sessions, and waits until they have ended.
func (p *Pool) stopStarts(of func(session string) bool) {
	var stopped []*starting
	p.mu.Lock()
	for _, s := range p.starts {
		if of(s.session) {
			s.stop()
			stopped = append(stopped, s)
		}
	}
	p.mu.Unlock()
	for _, s := range stopped {
		<-s.done
	}
}

// replace ends the resting launchers of a session. p.mu is held.
func (p *Pool) replace(session string) {
	for key, l := range p.launchers {
		if l.session == session && l.retire(0) {
			delete(p.launchers, key)
			go l.Close()
		}
	}
}

// makeRoom ends the launchers that have rested longest when there are too many, counting
// those that are being started. p.mu is held.
func (p *Pool) makeRoom() {
	for len(p.launchers)+len(p.starts) > p.Max {
		oldest, since := "", time.Time{}
		for key, l := range p.launchers {
			if at, rests := l.resting(); rests && (oldest == "" || at.Before(since)) {
				oldest, since = key, at
			}
		}
		l := p.launchers[oldest]
		if l == nil {
			return // all of them work
		}
		delete(p.launchers, oldest)
		if l.retire(0) {
			go l.Close()
		}
	}
}

// retire ends launchers that have not been used for a while. One ticker serves all: a timer
// that every call sets and stops would wake a thread.
func (p *Pool) retire() {
	tick := time.NewTicker(IdleTime / 10)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			p.RetireUnused(IdleTime)
		}
	}
}

// RetireUnused ends the launchers that have rested for so long.
func (p *Pool) RetireUnused(after time.Duration) {
	p.mu.Lock()
	var old []*Launcher
	for key, l := range p.launchers {
		if l.retire(after) {
			delete(p.launchers, key)
			old = append(old, l)
		}
	}
	p.mu.Unlock()
	for _, l := range old {
		l.Close()
	}
}
