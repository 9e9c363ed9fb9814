package undo

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// marks say which commands run. Each mark is a file. Most commands change nothing, and a file costs less than two
// writes to the journal, which knows a call from its first change on. A mark survives a kill.
type marks struct {
	dir string

	mu    sync.Mutex // guards the fields below; nobody holds it while waiting for the database
	calls map[string]marked
	// free are the empty files of commands that have ended. They are used again: to make a file and to remove it
	// costs six times as much.
	free []*os.File
}

type marked struct {
	*recorder
	file *os.File
}

func openMarks(dir string) (*marks, error) {
	return &marks{dir: dir, calls: map[string]marked{}}, os.MkdirAll(dir, 0o700)
}

// close closes the files of commands that have ended.
func (m *marks) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.free {
		f.Close()
	}
	m.free = nil
}

// put marks a command before it runs.
func (m *marks) put(r *recorder) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var f *os.File
	if last := len(m.free) - 1; last >= 0 {
		f, m.free = m.free[last], m.free[:last]
	} else {
		var err error
		if f, err = os.CreateTemp(m.dir, ""); err != nil {
			return noRoom(err)
		}
	}
	m.calls[r.call.ID] = marked{r, f}
	if _, err := f.WriteAt([]byte(encode(r.row())), 0); err != nil {
		return noRoom(errors.Join(err, m.end(r.call.ID)))
	}
	return nil
}

// has reports whether a command runs.
func (m *marks) has(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, marked := m.calls[id]
	return marked
}

func (m *marks) path(name string) string { return filepath.Join(m.dir, name) }

// remove takes the mark of a command away, after the journal has what it changed.
func (m *marks) remove(r *recorder) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end(r.call.ID)
}

// end empties the file of a command. The caller holds mu.
func (m *marks) end(id string) error {
	r, found := m.calls[id]
	if !found {
		return nil
	}
	delete(m.calls, id)
	if err := r.file.Truncate(0); err != nil {
		return errors.Join(err, os.Remove(r.file.Name()), r.file.Close())
	}
	m.free = append(m.free, r.file)
	return nil
}

// orphan notes that the session of running commands is gone. A new session of that name has none of them.
func (m *marks) orphan(session string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.calls {
		if r.call.Session.ID == session {
			r.orphan.Store(true)
		}
	}
}

// left returns the commands that a killed daemon left, in the order in which they began.
func (m *marks) left() ([]call, error) {
	names, err := os.ReadDir(m.dir)
	var all []call
	for _, e := range names {
		text, failed := os.ReadFile(m.path(e.Name()))
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		var c call
		if json.Unmarshal(text, &c) == nil && c.ID != "" { // empty: had not begun or had ended
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b call) int { return a.At.Compare(b.At) })
	return all, err
}

// recoverMarks puts the commands that a killed daemon left into the journal.
func (j *journal) recoverMarks(ctx context.Context) error {
	all, err := j.marks.left()
	if err != nil {
		return err
	}
	if len(all) > 0 {
		err = j.db.Write(ctx, func(tx *sql.Tx) error {
			for _, c := range all {
				if err := c.insert(tx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	names, listed := os.ReadDir(j.marks.dir)
	err = errors.Join(err, listed)
	for _, e := range names {
		if err == nil {
			err = os.Remove(j.marks.path(e.Name()))
		}
	}
	return err
}
