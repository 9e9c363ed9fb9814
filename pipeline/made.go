package pipeline

import (
	"errors"
	"iter"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// How many sessions, and paths of one, are remembered. What is forgotten is asked about.
const (
	maxMadeSessions = 256
	maxMadePaths    = 4096
)

// made knows the files that calls of a session have made. Such a file did not exist when the call that writes it was
// allowed, and nobody else has changed it since. So if it is lost, no person loses work. It is in memory only; after a
// restart nothing is known.
type made struct {
	mu       sync.Mutex // guards what follows
	sessions map[string]map[string]version
	order    []string // the oldest session first
}

// version is a file as a call has left it. The zero value is not known yet: the call runs, or another program ran it,
// and then it is that of the next look.
type version struct {
	inode   uint64
	size    int64
	changed syscall.Timespec // no program can set it
}

// look is the version of a path that there is now, if there is one. A file with several names has none that is known:
// the others may be a person's.
func look(path string) (now version, there bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return version{}, !errors.Is(err, os.ErrNotExist)
	}
	s := info.Sys().(*syscall.Stat_t)
	if info.Mode().IsRegular() && s.Nlink != 1 {
		return version{}, true
	}
	return version{s.Ino, s.Size, s.Ctim}, true
}

func newMade() *made { return &made{sessions: map[string]map[string]version{}} }

// note remembers the files that a call is about to make, and forgets those that others have changed. A call that moves
// files makes none, because their content is not new. One that is held for a client makes none before it begins: it is
// judged again then, and may never begin.
func (m *made) note(c *tool.Call) {
	if c.Request.Hypothetical || c.Request.Lease || !c.Ran() ||
		slices.ContainsFunc(c.Facts.Uses.Deletes, func(d guard.Deletion) bool { return d.Moved != "" }) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for path := range writes(c) {
		now, there := look(path)
		paths := m.sessions[c.Session.ID]
		switch {
		case !there && c.Request.DryRun && deletes(c, path): // nobody will see whether it is there afterwards
		case !there:
			m.add(c.Session.ID, path)
		case own(paths, path, now):
			paths[path] = version{}
		default:
			delete(paths, path)
		}
	}
}

// saw remembers what a call has left, when it has run.
func (m *made) saw(c *tool.Call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	paths := m.sessions[c.Session.ID]
	for path := range writes(c) {
		if _, known := paths[path]; !known {
			continue
		}
		if now, there := look(path); there {
			paths[path] = now
		} else {
			delete(paths, path)
		}
	}
}

// writes are the single files that a call is known to write.
func writes(c *tool.Call) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range c.Facts.Uses.Paths {
			if p.Op == guard.Write && p.Path != "" && !p.Glob && !p.Recursive && !p.Guess && !yield(p.Path) {
				return
			}
		}
	}
}

// deletes reports whether a call deletes this file.
func deletes(c *tool.Call, path string) bool {
	return slices.ContainsFunc(c.Facts.Uses.Deletes, func(d guard.Deletion) bool { return d.Path == path })
}

// own reports whether a file is as a call of the session left it.
func own(paths map[string]version, path string, now version) bool {
	was, known := paths[path]
	return known && now != version{} && (was == version{} || was == now)
}

// add needs the lock.
func (m *made) add(session, path string) {
	paths := m.sessions[session]
	if paths == nil {
		if len(m.order) == maxMadeSessions {
			delete(m.sessions, m.order[0])
			m.order = m.order[1:]
		}
		paths = map[string]version{}
		m.sessions[session], m.order = paths, append(m.order, session)
	}
	if len(paths) < maxMadePaths {
		paths[path] = version{}
	}
}

// spare takes what the session has made itself out of what a call would destroy.
func (m *made) spare(c *tool.Call) {
	u := &c.Facts.Uses
	if len(u.Losses)+len(u.Deletes) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	paths := m.sessions[c.Session.ID]
	made := func(path string) bool {
		if _, known := paths[path]; !known {
			return false
		}
		now, there := look(path)
		if !there || !own(paths, path, now) {
			return false
		}
		paths[path] = now
		return true
	}
	u.Losses = slices.DeleteFunc(u.Losses, func(l guard.Loss) bool { return made(l.Path) })
	for i := range u.Deletes {
		if d := &u.Deletes[i]; d.Unsaved {
			d.Unsaved = !made(d.Path)
		}
	}
}
