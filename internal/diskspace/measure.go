package diskspace

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/sandbox/limit"
)

// attend measures what is due, beside the caller.
func (g *Guard) attend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	measure, hold := g.due(), time.Since(g.upkept) > upkeep
	if g.working || g.closed || !measure && !hold {
		return
	}
	g.working, g.upkept = true, time.Now()
	g.work.Go(func() {
		unheld := g.held.fill(g.heldBytes())
		if measure {
			g.measure()
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.working, g.unheld = false, unheld
	})
}

// due reports whether what is known is too old. Whoever holds g.mu calls it.
func (g *Guard) due() bool {
	age := time.Since(g.measured)
	if age < max(soonest, min(fraction*g.took, oldest)) {
		return false
	}
	return age > oldest || g.grown || g.fell(g.space.state, g.before.state) || g.fell(g.space.private, g.before.private)
}

// fell reports whether much of the room is gone, or came, since then.
func (g *Guard) fell(now, before limit.Space) bool {
	room, was := g.room(now), g.room(before)
	part := was / fallen
	if g.o.PerAccount > 0 {
		part = min(part, g.o.PerAccount/fallen)
	}
	return was-room > part || room-was > part
}

// measure finds out what each session keeps. What cannot be found out stays as it was.
func (g *Guard) measure() {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g.mu.Lock()
	space, known := g.space, maps.Clone(g.sessions)
	g.grown = false
	sent := map[string]int64{}
	for name, a := range g.accounts {
		sent[name] = a.since
	}
	g.mu.Unlock()
	sessions, err := g.sizes(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.took, g.measured, g.before = time.Since(begun), time.Now(), space
	if err != nil {
		g.o.Log.Warn("what sessions keep on the disk is not measured", "error", err)
		return
	}
	accounts := map[string]*account{}
	for name, a := range g.accounts { // what came meanwhile is not in it
		if since := a.since - sent[name]; since > 0 || a.told || a.until.After(begun) {
			accounts[name] = &account{since: since, told: a.told, until: a.until}
		}
	}
	for id, session := range g.sessions {
		_, measured := sessions[id]
		if _, old := known[id]; !old && !measured { // it came meanwhile
			sessions[id] = session
		}
	}
	g.accounts, g.sessions = accounts, sessions
	for _, k := range sessions {
		a := g.account(k.Account)
		a.files += k.files
		a.values += k.Values
	}
}

func (g *Guard) sizes(ctx context.Context) (map[string]Session, error) {
	sessions, err := g.o.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	files, err := g.o.Files(slices.Collect(maps.Keys(sessions)))
	for id, n := range files {
		k := sessions[id]
		k.files = n
		sessions[id] = k
	}
	return sessions, err
}
