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

// marks say which commands run, each in a file of its own. Most commands change nothing, and two files cost
// less than two writes to the journal, which has a call from its first change on. A mark survives a kill.
type marks struct {
	dir string

	mu    sync.Mutex // guards calls; nobody waits for the database with it
	calls map[string]*recorder
}

func openMarks(dir string) (*marks, error) {
	return &marks{dir: dir, calls: map[string]*recorder{}}, os.MkdirAll(dir, 0o700)
}

// put marks a command before it runs.
func (m *marks) put(r *recorder) error {
	m.mu.Lock()
	m.calls[r.call.ID] = r
	m.mu.Unlock()
	if err := os.WriteFile(m.path(r.call.ID), []byte(encode(r.row())), 0o600); err != nil {
		return noRoom(err)
	}
	return nil
}

func (m *marks) path(id string) string { return filepath.Join(m.dir, id) }

// remove takes the mark of a command away, when the journal has what it changed.
func (m *marks) remove(r *recorder) error {
	m.mu.Lock()
	_, marked := m.calls[r.call.ID]
	delete(m.calls, r.call.ID)
	m.mu.Unlock()
	if !marked {
		return nil
	}
	if err := os.Remove(m.path(r.call.ID)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// orphan notes that a session is gone whose commands run: a new one of that name has none of them.
func (m *marks) orphan(session string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.calls {
		if r.call.Session.ID == session {
			r.orphan.Store(true)
		}
	}
}

// left are the commands that a killed daemon left, in the order in which they began.
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
		if json.Unmarshal(text, &c) == nil && c.ID == e.Name() { // else it had not begun
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
