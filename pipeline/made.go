package pipeline

import (
	"errors"
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
	maxPaths        = 4096
)

// made knows the files that calls of a session have made, and those that they have read. A file that was made did not
// exist when the call that writes it was allowed, and nobody else has changed it since. So if it is lost, no person
// loses work. Those that were read are for Write: who writes a file anew and has read it knows what it replaces. It is
// in memory only; after a restart nothing is known.
type made struct {
	mu       sync.Mutex // guards what follows
	sessions map[string]*known
	order    []string // the oldest session first
}

// known are files of one session, by their paths.
type known struct{ made, read map[string]version }

// version is a file as a call has left it. The zero value is not known yet: the call runs, or another program ran it,
// and then it is that of the next look.
type version struct {
	inode   uint64
	size    int64
	changed syscall.Timespec // no program can set it
}

// look returns the version of a path that there is now, if there is one. A file with several names (hard links) gets
// the zero version, as if it were not known: the other names may be a person's.
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

func newMade() *made { return &made{sessions: map[string]*known{}} }

// beforeRun remembers the files that a call is about to read or to make, and forgets those that others have changed. A
// call that moves or restores files makes none, because their content is not new. One that is held for a client makes
// none before it begins: it is judged again then, and may never begin.
func (m *made) beforeRun(c *tool.Call) {
	if c.Request.Hypothetical || c.Request.Lease || !c.Ran() {
		return
	}
	reads, writes := touched(c, guard.Read), touched(c, guard.Write) // the disk may be slow: before the lock
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range reads {
		if !f.there {
			continue
		}
		k := m.of(c.Session.ID)
		if len(k.read) == maxPaths {
			clear(k.read) // the model reads again what it needs
		}
		k.read[f.path] = f.now
	}
	moved := func(d guard.Deletion) bool { return d.Moved != "" }
	if c.Spec.Restores || slices.ContainsFunc(c.Facts.Uses.Deletes, moved) {
		return
	}
	for _, f := range writes {
		k := m.of(c.Session.ID)
		expect(k.made, f.path, f.now)
		expect(k.read, f.path, f.now)
		unseen := c.Request.DryRun && deletes(c, f.path) // nobody will see whether it is there afterwards
		if !f.there && !unseen && len(k.made) < maxPaths {
			k.made[f.path] = version{}
		}
	}
}

// expect makes what the call leaves the version of a file that is known, and forgets one that others have changed.
func expect(files map[string]version, path string, now version) {
	if own(files, path, now) {
		files[path] = version{}
	} else {
		delete(files, path)
	}
}

// afterRun remembers what a call has left, when it has run.
func (m *made) afterRun(c *tool.Call) {
	writes := touched(c, guard.Write)
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.sessions[c.Session.ID]
	if k == nil {
		return
	}
	for _, f := range writes {
		for _, files := range []map[string]version{k.made, k.read} {
			if _, known := files[f.path]; !known {
				continue
			}
			if f.there {
				files[f.path] = f.now
			} else {
				delete(files, f.path)
			}
		}
	}
}

// found is a file as it is now.
type found struct {
	path  string
	now   version
	there bool
}

// touched returns the single files that a call is known to read or to write.
func touched(c *tool.Call, op guard.Op) (files []found) {
	for _, p := range c.Facts.Uses.Paths {
		if p.Op == op && p.Path != "" && !p.Glob && !p.Recursive && !p.Guess && !p.Looks {
			now, there := look(p.Path)
			files = append(files, found{p.Path, now, there})
		}
	}
	return files
}

// deletes reports whether a call deletes this file.
func deletes(c *tool.Call, path string) bool {
	return slices.ContainsFunc(c.Facts.Uses.Deletes, func(d guard.Deletion) bool { return d.Path == path })
}

// own reports whether a file is as a call of the session left or read it.
func own(files map[string]version, path string, now version) bool {
	was, known := files[path]
	return known && now != version{} && (was == version{} || was == now)
}

// of needs the lock.
func (m *made) of(session string) *known {
	k := m.sessions[session]
	if k == nil {
		if len(m.order) == maxMadeSessions {
			delete(m.sessions, m.order[0])
			m.order = m.order[1:]
		}
		k = &known{map[string]version{}, map[string]version{}}
		m.sessions[session], m.order = k, append(m.order, session)
	}
	return k
}

// leaveOut takes what the session has made itself out of what a call would destroy, and what it has read if the call
// writes it anew without a command.
func (m *made) leaveOut(c *tool.Call) {
	u := &c.Facts.Uses
	if len(u.Losses)+len(u.Deletes) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.sessions[c.Session.ID]
	if k == nil {
		return
	}
	knows := func(files map[string]version, path string) bool {
		now, there := look(path)
		if !there || !own(files, path, now) {
			return false
		}
		files[path] = now
		return true
	}
	u.Losses = slices.DeleteFunc(u.Losses, func(l guard.Loss) bool {
		return knows(k.made, l.Path) || u.Script == nil && knows(k.read, l.Path)
	})
	for i := range u.Deletes {
		if d := &u.Deletes[i]; d.Unsaved {
			d.Unsaved = !knows(k.made, d.Path)
		}
	}
}
