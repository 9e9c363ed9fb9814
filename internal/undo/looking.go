package undo

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"reflect"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// looking collects what one look at a tree finds.
type looking struct {
	j   *journal
	s   *snapshot
	box bareBox
	may func(path string) bool
	// whole says that the journal gets all notes in one transaction. Contents go to the store before.
	whole bool
	ready []note   // notes whose contents are in the store
	notes []note   // notes whose contents are not there yet
	bytes int64    // size of the contents of notes
	held  []func() // each lets a content in the store go
}

// note is a path of a tree, with what is kept of it.
type note struct {
	path string
	is   seen
	copied
}

// About how much one transaction writes at most.
const (
	maxNotes     = 500
	maxNoteBytes = 16 << 20
)

// keep keeps what lies at a path now, and notes it.
func (k *looking) keep(ctx context.Context, path string, is seen) (state, error) {
	if is.Type == isPipe { // opening it would let processes go on that wait for a reader
		err := k.box.user.Do(func() error {
			now, err := unopened(unix.AT_FDCWD, path)
			if err == nil && now.Type == isPipe {
				is.state = now
			}
			return nil // nil: it went in the meantime
		})
		if err != nil {
			return state{}, err
		}
		return k.keepNode(ctx, path, is)
	}
	content := k.box.contentAt(path)
	if content.File != nil {
		defer content.File.Close()
	}
	if is.Type == isDir {
		now, err := stateOf(content, io.Discard)
		if now.Type == unreadable {
			err = k.box.user.Do(func() (err error) { now, err = unopened(unix.AT_FDCWD, path); return err })
		}
		if err == nil && now.Type == isDir {
			is.Extended = now.Extended
		}
		for name, value := range is.Extended { // the file may be open for this look alone
			is.Extended[name] = sandbox.WithMode(name, value, is.Mode)
		}
		return k.keepNode(ctx, path, is)
	}
	if k.may == nil {
		return stateOf(content, io.Discard)
	}
	if content.File != nil {
		k.noteWriters(path, content.File)
		give, err := k.room(path, content.File)
		switch {
		case errors.Is(err, errNoRoom):
			return k.keepSum(ctx, path, is, content)
		case err != nil:
			content = sandbox.Content{Err: err}
		default:
			defer give()
		}
	}
	c, err := k.j.store.copy(content)
	if err == nil && content.File != nil {
		c.Index = indexOf(path, c.state, content.File)
	}
	if e, ok := errors.AsType[*tool.Error](err); ok && e.Code == growsCode {
		c, err = copied{state: state{Type: unreadable}}, nil
		is.changed, k.s.open[path] = 0, true
	}
	if err != nil {
		return state{}, err
	}
	if c.Type == unreadable {
		c.state = k.unread(path)
	}
	if c.Type == nothing || !atRest(is.changed, time.Now()) || c.Type == isFile && c.Size != is.Size {
		is.changed = 0
	}
	is.state = c.state
	return c.state, k.note(ctx, note{path, is, c})
}

// noteWriters notes whether a process has a file open for writing. Such a process may write by a mapping, which
// causes no event and may not move the change time.
func (k *looking) noteWriters(path string, f *os.File) {
	open, known := writersOf(f)
	if open || !known {
		k.s.open[path] = open
	} else {
		delete(k.s.open, path)
	}
}

// writersOf reports whether a process has a file open or mapped for writing. The kernel gives a lease only if none
// has. A process that opens the file meanwhile waits for that moment. For a file of another user the answer is not
// known.
func writersOf(f *os.File) (open, known bool) {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	}
	open = errors.Is(err, unix.EAGAIN)
	return open, open || err == nil
}

// keepNode notes a directory or a named pipe without its times, because what comes into it moves them.
func (k *looking) keepNode(ctx context.Context, path string, is seen) (state, error) {
	if !atRest(is.changed, time.Now()) {
		is.changed = 0
	}
	if k.may == nil {
		return is.state, nil
	}
	return is.state, k.note(ctx, note{path: path, is: is})
}

// unread returns the state of a file that is not kept.
func (k *looking) unread(path string) (s state) {
	_ = k.box.user.Do(func() error {
		var st unix.Stat_t
		err := unix.Lstat(path, &st)
		if s = (state{Type: unreadable}); err == nil {
			s = unreadOf(st)
		}
		return err
	})
	return s
}

// keepSum notes the sum of a file for whose content there is no room. What the next command does to the file cannot
// be undone. What this one did can, and for that the sum must be known.
func (k *looking) keepSum(ctx context.Context, path string, is seen, c sandbox.Content) (state, error) {
	now, err := stateOf(c, io.Discard)
	if e, ok := errors.AsType[*tool.Error](err); ok && e.Code == growsCode {
		now, err = k.unread(path), nil
		is.changed, k.s.open[path] = 0, true
	}
	if err != nil {
		return state{}, err
	}
	if !atRest(is.changed, time.Now()) || now.Type == isFile && now.Size != is.Size {
		is.changed = 0
	}
	is.state = now
	if was := k.s.known[path]; was.Type != isFile || was.Sum != now.Sum { // else the store has the content
		is.Type = unreadable
	}
	return now, k.note(ctx, note{path: path, is: is})
}

// Reasons why a content is not copied.
var (
	errNotKept = errors.New("it is not kept")
	errNoRoom  = errors.New("the store has no room for it")
)

// room reserves room for a file that is about to be kept.
func (k *looking) room(path string, f *os.File) (give func(), err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if !k.may(path) || info.Mode().IsRegular() && size > k.j.settings().PerCallBytes {
		return nil, errNotKept
	}
	give, ok := k.j.reserve(size + k.bytes)
	if !ok {
		return nil, errNoRoom
	}
	return give, nil
}

// note remembers a path, and what is kept of it. If only the inode or a time has changed, the journal is not told;
// after a restart the file is read once more.
func (k *looking) note(ctx context.Context, n note) error {
	if was, known := k.s.known[n.path]; known && reflect.DeepEqual(n.is.state, was.state) {
		k.s.known[n.path] = n.is
		k.j.store.drop(n.copied)
		return nil
	}
	k.notes = append(k.notes, n)
	if k.bytes += n.Size; len(k.notes) < maxNotes && k.bytes < maxNoteBytes {
		return nil
	}
	return k.flush(ctx)
}

// flush puts contents into the store. If not whole, it also writes the notes to the journal.
func (k *looking) flush(ctx context.Context) error {
	if !k.whole {
		return k.write(ctx, nil, nil)
	}
	contents := k.contents()
	var sums []string
	for _, c := range contents {
		sums = append(sums, c.Sum)
	}
	k.held = append(k.held, k.j.hold(sums))
	err := k.j.admit(ctx, "", func(*sql.Tx) error { return nil }, contents...)
	if err != nil {
		return err
	}
	for _, n := range k.notes {
		n.data, n.temp = nil, ""
		k.ready = append(k.ready, n)
	}
	k.notes, k.bytes = nil, 0
	return nil
}

func (k *looking) contents() (all []copied) {
	for _, n := range k.notes {
		all = append(all, n.copied)
	}
	return all
}

// write writes to the journal the notes, and which paths are gone from the tree.
func (k *looking) write(ctx context.Context, gone []string, more func(*sql.Tx) error) error {
	notes := append(k.ready, k.notes...)
	if len(notes) == 0 && len(gone) == 0 && more == nil {
		return nil
	}
	err := k.j.admit(ctx, "", func(tx *sql.Tx) error {
		put, err := tx.Prepare(`INSERT INTO undo_trees (root, path, inode, changed, state, sum)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (root, path) DO UPDATE SET inode = excluded.inode,
			changed = excluded.changed, state = excluded.state, sum = excluded.sum`)
		for _, n := range notes {
			if err == nil {
				_, err = put.Exec(k.s.root, []byte(n.path), int64(n.is.inode), n.is.changed, encode(n.is.state),
					n.is.Sum)
			}
		}
		if err != nil {
			return err
		}
		remove, err := tx.Prepare(`DELETE FROM undo_trees WHERE root = $1 AND path = $2`)
		for _, path := range gone {
			if err == nil {
				_, err = remove.Exec(k.s.root, []byte(path))
			}
		}
		if err == nil && more != nil {
			err = more(tx)
		}
		return err
	}, k.contents()...)
	if err != nil {
		return err
	}
	for _, n := range notes {
		k.s.known[n.path] = n.is
	}
	for _, path := range gone {
		delete(k.s.known, path)
		delete(k.s.links, path)
		delete(k.s.open, path)
	}
	k.ready, k.notes, k.bytes = nil, nil, 0
	return nil
}

// drop forgets the notes that did not get into the journal.
func (k *looking) drop() {
	for _, c := range k.contents() {
		k.j.store.drop(c)
	}
	for _, release := range k.held {
		release()
	}
}
