package transcript

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

//go:embed migrations/postgres/*.sql
var migrations embed.FS

// Schema returns the tables of [Rows]. Over a file there are none.
func Schema() store.Schema { return store.EmbeddedBoth("transcript", migrations) }

// partBytes is how much of a transcript is in one row.
const partBytes = 128 << 10

// ErrStale means that the transcript was saved elsewhere since it was opened.
var ErrStale = errors.New("the transcript was saved meanwhile")

// Rows keeps transcripts in a database that daemons share. It is safe for concurrent use.
type Rows struct {
	locks
	db *store.DB
}

// OpenRows removes what this daemon left when it was killed while it saved.
func OpenRows(ctx context.Context, db *store.DB) (*Rows, error) {
	r := &Rows{db: db}
	return r, db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM transcript_parts WHERE daemon = $1
			AND version NOT IN (SELECT version FROM transcripts)`, db.Daemon())
		return err
	})
}

// Close closes nothing: the database is not its own.
func (r *Rows) Close() error { return nil }

// IDs returns none: no transcript outlives its session here, because Forget runs in the transaction that deletes it.
func (r *Rows) IDs() ([]string, error) { return nil, nil }

// Regular returns false: a damaged transcript is not replaced, because no daemon leaves one.
func (r *Rows) Regular(string) bool { return false }

// Remove removes nothing: see Forget.
func (r *Rows) Remove(string) error { return nil }

// Forget removes the transcript of a session in the transaction that deletes it.
func (r *Rows) Forget(tx *sql.Tx, id string) error {
	_, err := tx.Exec(`DELETE FROM transcript_parts WHERE version IN
		(SELECT version FROM transcripts WHERE session = $1)`, id)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`DELETE FROM transcripts WHERE session = $1`, id)
	return err
}

// Sizes returns how many bytes the transcripts have, by session.
func (r *Rows) Sizes(ctx context.Context) (map[string]int64, error) {
	sizes := map[string]int64{}
	err := r.db.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT session, bytes FROM transcripts`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			var n int64
			if err := rows.Scan(&id, &n); err != nil {
				return err
			}
			sizes[id] = n
		}
		return rows.Err()
	})
	return sizes, err
}

// Read opens the transcript of a session. Without one the error is [fs.ErrNotExist].
func (r *Rows) Read(id string) (*File, error) {
	t := &File{id: id}
	err := r.db.Read(context.Background(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT version, bytes FROM transcripts WHERE session = $1`, id).Scan(&t.version, &t.Size)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	t.f = &parts{db: r.db, version: t.version, id: id, size: t.Size, at: -1}
	return t, t.readHead()
}

// parts is a version as a file.
type parts struct {
	db          *store.DB
	version, id string
	size        int64

	at   int64 // which part is in memory; -1: none
	part []byte
}

func (p *parts) Close() error { return nil }

// ReadAt is for one reader at a time.
func (p *parts) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		if off >= p.size {
			return n, io.EOF
		}
		if err := p.load(off / partBytes); err != nil {
			return n, err
		}
		from := off % partBytes
		if from >= int64(len(p.part)) {
			return n, corrupt(p.id, "a part is short")
		}
		k := copy(b[n:], p.part[from:])
		n, off = n+k, off+int64(k)
	}
	return n, nil
}

func (p *parts) load(n int64) error {
	if p.at == n {
		return nil
	}
	err := p.db.Read(context.Background(), func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT part FROM transcript_parts WHERE version = $1 AND n = $2`, p.version, n).
			Scan(&p.part)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: %w", ErrStale, &tool.Error{
			Code: "transcript_changed", Hint: "read it again",
			Msg: fmt.Sprintf("the transcript of session %q was saved while it was read", p.id),
		})
	}
	p.at = n
	return err
}

// Write writes a transcript of the first messages of old and of those that are added. Nobody sees
// it before [New.Place].
func (r *Rows) Write(meta Metadata, old *File, keep int, add []json.RawMessage) (New, error) {
	cut := int64(0)
	if keep > 0 {
		var err error
		if cut, err = old.endOf(keep); err != nil {
			return nil, err
		}
	}
	n := &newRows{r: r, version: rand.Text()}
	if old != nil && old.id == meta.ID {
		n.before = old.version
	}
	meta.Messages = keep + len(add)
	err := write(n, meta, old, cut, add)
	if err == nil {
		err = n.flush()
	}
	if err != nil {
		return nil, errors.Join(err, n.Drop())
	}
	return n, nil
}

// newRows is a version that no session has yet.
type newRows struct {
	r               *Rows
	version, before string // "" where there was none
	n, bytes        int64
	part            []byte
	placed          bool
}

func (w *newRows) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		k := min(len(rest), partBytes-len(w.part))
		w.part, rest = append(w.part, rest[:k]...), rest[k:]
		if len(w.part) == partBytes {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(b), nil
}

func (w *newRows) flush() error {
	if len(w.part) == 0 {
		return nil
	}
	err := w.r.db.Write(context.Background(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO transcript_parts (version, n, part, daemon) VALUES ($1, $2, $3, $4)`,
			w.version, w.n, w.part, w.r.db.Daemon())
		return err
	})
	w.n, w.bytes, w.part = w.n+1, w.bytes+int64(len(w.part)), w.part[:0]
	return err
}

// Place gives the version to its session in tx. [ErrStale] says that another one took the place
// since the old one was read.
func (w *newRows) Place(tx *sql.Tx, id string) error {
	query, args := `INSERT INTO transcripts (session, version, bytes) VALUES ($1, $2, $3)
		ON CONFLICT (session) DO NOTHING`, []any{id, w.version, w.bytes}
	if w.before != "" {
		query, args = `UPDATE transcripts SET version = $2, bytes = $3 WHERE session = $1 AND version = $4`,
			append(args, w.before)
	}
	res, err := tx.Exec(query, args...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, ErrStale)
	}
	w.placed = true
	_, err = tx.Exec(`DELETE FROM transcript_parts WHERE version = $1`, w.before)
	return err
}

// Placed ends what Place began, after its transaction.
func (w *newRows) Placed(string) error { return nil }

// Drop removes the version, unless a session has it.
func (w *newRows) Drop() error {
	if w.placed {
		return nil
	}
	return w.r.db.Write(context.Background(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM transcript_parts WHERE version = $1
			AND version NOT IN (SELECT version FROM transcripts)`, w.version)
		return err
	})
}
