package audit

import (
	"context"
	"database/sql"
	"embed"
	"errors"

	"github.com/sandboxd/sandboxd/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Schema returns the tables of the mirror.
func Schema() store.Schema { return store.Embedded("audit", migrations) }

// Mirror remembers outside the file how far the file goes.
type Mirror interface {
	// Load returns what the last Save left; zero at first.
	Load(context.Context) (Mirrored, error)
	// Save replaces the head and adds checkpoints, all or nothing. Saving a
	// checkpoint again changes nothing. With synced, this Save and all before it
	// survive a loss of power.
	Save(ctx context.Context, h Head, points []Checkpoint, synced bool) error
	// Replace forgets everything and keeps this instead, synced.
	Replace(context.Context, Mirrored) error
}

// Mirrored is the content of a mirror.
type Mirrored struct {
	Head        Head
	Checkpoints []Checkpoint // in order
}

// Head is the newest line that is known to be durable.
type Head struct {
	Seq       uint64
	Hash      string
	Signature string
}

// Checkpoint is a signed line of the log. What lies before it is fixed.
type Checkpoint struct {
	Seq       uint64
	Hash      string
	End       int64 // bytes of the file up to and with the line
	Signature string
}

// NewMirror keeps the mirror in the database, which must have [Schema].
func NewMirror(db *store.DB) Mirror { return dbMirror{db} }

type dbMirror struct{ db *store.DB }

func (m dbMirror) Load(ctx context.Context) (Mirrored, error) {
	var seen Mirrored
	err := m.db.Read(ctx, func(tx *sql.Tx) error {
		seen = Mirrored{}
		err := tx.QueryRowContext(ctx, `SELECT seq, hash, signature FROM audit_head WHERE id = 1`).
			Scan(&seen.Head.Seq, &seen.Head.Hash, &seen.Head.Signature)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT seq, hash, position, signature FROM audit_checkpoints ORDER BY seq`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var c Checkpoint
			if err := rows.Scan(&c.Seq, &c.Hash, &c.End, &c.Signature); err != nil {
				return err
			}
			seen.Checkpoints = append(seen.Checkpoints, c)
		}
		return rows.Err()
	})
	return seen, err
}

func (m dbMirror) Save(ctx context.Context, h Head, points []Checkpoint, synced bool) error {
	write := m.db.Write
	if synced {
		write = m.db.WriteSynced
	}
	return write(ctx, func(tx *sql.Tx) error { return save(ctx, tx, h, points) })
}

func (m dbMirror) Replace(ctx context.Context, all Mirrored) error {
	return m.db.WriteSynced(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"audit_head", "audit_checkpoints"} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table); err != nil {
				return err
			}
		}
		return save(ctx, tx, all.Head, all.Checkpoints)
	})
}

func save(ctx context.Context, tx *sql.Tx, h Head, points []Checkpoint) error {
	for _, c := range points {
		_, err := tx.ExecContext(ctx, `INSERT INTO audit_checkpoints (seq, hash, position, signature)
			VALUES ($1, $2, $3, $4) ON CONFLICT (seq) DO NOTHING`, c.Seq, c.Hash, c.End, c.Signature)
		if err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO audit_head (id, seq, hash, signature) VALUES (1, $1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, signature = excluded.signature`,
		h.Seq, h.Hash, h.Signature)
	return err
}

// MirrorAt reads the mirror of the database at a path, for [Verify]. One that is missing or empty
// knows nothing, and is not made.
func MirrorAt(path string) Mirror { return readMirror(path) }

type readMirror string

func (m readMirror) Load(ctx context.Context) (Mirrored, error) {
	empty, err := isEmpty(string(m))
	if err != nil || empty {
		return Mirrored{}, err
	}
	db, err := store.Open(ctx, store.Options{Path: string(m)}, Schema())
	if err != nil {
		return Mirrored{}, err
	}
	seen, err := NewMirror(db).Load(ctx)
	return seen, errors.Join(err, db.Close())
}

var errReadOnly = errors.New("this mirror is only read")

func (readMirror) Save(context.Context, Head, []Checkpoint, bool) error { return errReadOnly }
func (readMirror) Replace(context.Context, Mirrored) error              { return errReadOnly }
