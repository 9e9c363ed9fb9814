package tools

import (
	"container/list"
	"os"
	"sync"
	"time"
)

// maxSeen and maxSeenBytes bound what is remembered over all sessions.
const (
	maxSeen      = 10_000
	maxSeenBytes = 2 << 20 // of names
)

// seen knows which state of a file a session read last, so that Edit and Write
// can say that it changed since. It is advice only: nothing is refused by it,
// and what does not fit any more is forgotten.
type seen struct {
	mu    sync.Mutex // guards what follows
	order *list.List // of seenKey, the last used in front
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

// record notes the state that a session knows now.
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

// changed reports whether the file is not as the session read it last; false
// when it never did.
func (s *seen) changed(session, path string, info os.FileInfo) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, known := s.at[seenKey{session, path}]
	return known && (f.size != info.Size() || !f.modified.Equal(info.ModTime()))
}
