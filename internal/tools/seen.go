package tools

import (
	"container/list"
	"os"
	"sync"
	"time"
)

// maxSeen and maxSeenBytes bound what is remembered for all sessions together.
const (
	maxSeen      = 10_000
	maxSeenBytes = 2 << 20 // of names
)

// seen remembers the state of each file when a session last read it, so that Edit and Write can say that the file
// has changed since. This is advice: no call is refused because of it, and what exceeds the bounds is forgotten.
type seen struct {
	mu    sync.Mutex // guards what follows
	order *list.List // of seenKey, the most recently used first
	at    map[seenKey]seenFile
	bytes int
}

type seenKey struct{ session, path string }

type seenFile struct {
	modified time.Time
	size     int64
	place    *list.Element
}

func newSeen() *seen { return &seen{order: list.New(), at: map[seenKey]seenFile{}} }

// record remembers the current state of a file for a session.
func (s *seen) record(session, path string, info os.FileInfo) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := seenKey{session, path}
	f, known := s.at[key]
	if known {
		s.order.MoveToFront(f.place)
	} else {
		f.place = s.order.PushFront(key)
		s.bytes += len(session) + len(path)
	}
	f.modified, f.size = info.ModTime(), info.Size()
	s.at[key] = f
	for s.order.Len() > maxSeen || s.bytes > maxSeenBytes {
		last := s.order.Back()
		gone := last.Value.(seenKey)
		delete(s.at, gone)
		s.order.Remove(last)
		s.bytes -= len(gone.session) + len(gone.path)
	}
}

// changed reports whether the file differs from what the session read last. It is false if the session never read
// the file.
func (s *seen) changed(session, path string, info os.FileInfo) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, known := s.at[seenKey{session, path}]
	return known && (f.size != info.Size() || !f.modified.Equal(info.ModTime()))
}
