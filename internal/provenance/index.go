package provenance

import (
	"errors"
	"sync"
)

// ErrBehind means that the index lacks texts of the session and was given no way to
// read them.
var ErrBehind = errors.New("the index of outside texts lacks some")

// Reader passes each text of one session that is newer than the id after to add,
// oldest first.
type Reader func(after int64, add func(by Authors, text []byte)) error

// Index holds the outside texts of the sessions that are busy. It is a cache: what
// it lacks is read again. The zero value is ready; it is safe for concurrent use.
type Index struct {
	// Bound is how many bytes of outside text are in memory, over all sessions; each takes
	// three with its hashes. 0 is no bound.
	Bound int

	mu       sync.Mutex        // guards what follows
	sessions map[string]*texts // by session
	size     int               // bytes of all
}

// texts is the index of one session.
type texts struct {
	mu   sync.Mutex // guards what follows
	x    Shingles
	last int64 // id of the newest text in it
	size int   // bytes, guarded by the mutex of the Index
}

// Copied returns the authors of the outside texts of a session of which text holds a
// run. newest is the id of the session's newest text. Texts that the index lacks come
// from read; without one the error is [ErrBehind].
func (i *Index) Copied(session string, newest int64, text string, read Reader) (Authors, error) {
	if newest == 0 || len(text) < RunLength {
		return 0, nil
	}
	t := i.of(session)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last < newest {
		if read == nil {
			return 0, ErrBehind
		}
		added := 0
		err := read(t.last, func(by Authors, text []byte) {
			t.x.Add(text, by)
			added += len(text)
		})
		if err != nil { // a part of the texts may be in it, and would come once more
			t.x, t.last = Shingles{}, 0
			i.Forget(session)
			return 0, err
		}
		t.last = newest
		i.grown(session, t, added)
	}
	return t.x.Match(text), nil
}

// Forget drops what the index holds of a session.
func (i *Index) Forget(session string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if t := i.sessions[session]; t != nil {
		i.size -= t.size
		delete(i.sessions, session)
	}
}

func (i *Index) of(session string) *texts {
	i.mu.Lock()
	defer i.mu.Unlock()
	t := i.sessions[session]
	if t == nil {
		t = &texts{}
		if i.sessions == nil {
			i.sessions = map[string]*texts{}
		}
		i.sessions[session] = t
	}
	return t
}

// grown counts what is in memory now and drops all of it when it is too much: what is needed
// is read again, without what the session has forgotten since.
func (i *Index) grown(session string, t *texts, bytes int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.sessions[session] != t { // forgotten meanwhile
		return
	}
	t.size += bytes
	if i.size += bytes; i.Bound > 0 && i.size > i.Bound {
		i.sessions, i.size = nil, 0
	}
}
