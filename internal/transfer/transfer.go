// Package transfer copies the state that daemons share between the file of one daemon and
// PostgreSQL, in either direction, and verifies the copy. [Plan.Run] does all of it:
//
//	p := transfer.Plan{
//		From:   transfer.Side{DB: file, Name: "/var/lib/sandboxd", Transcripts: files},
//		To:     transfer.Side{DB: shared, Name: "db.example", Transcripts: rows},
//		Daemon: id, // that of the file
//	}
//	copied, err := p.Run(ctx) // number and hash of the rows of each table, the same on both sides
//
// Before Run, the caller stops all daemons on both sides, and brings the tables of both sides to
// this version. Of that, Run checks that both sides have the same tables and columns. The
// destination must be empty (store_not_empty). With [Plan].Replace, Run empties it first: that is
// for a file, and Run does not check it (over PostgreSQL, the state of all daemons would go). The
// databases are opened AsIs, and the caller closes them.
//
//  1. Run marks the destination. No daemon opens a database with the mark.
//  2. It copies table by table in the order of the primary keys, each batch in a transaction of its
//     own; then the transcripts. After a kill, Run from the same source continues behind the last
//     row. From a source of another Side.Name it is the error store_unfinished.
//  3. It reads both sides again, and compares number and hash of rows and transcripts. If they
//     differ, the error is store_differs, and the mark stays.
//  4. It removes the mark.
//
// After an error in steps 1 to 3, run the same copy again, or leave the destination: without the mark
// nothing in it was changed, and with the mark no daemon opens it. The source is only read. A Plan is
// for one Run at a time.
//
// Rows in PostgreSQL name their daemon, rows in a file do not. A copy from a file adds the id of
// the daemon, and a copy to a file leaves it out. Only the data of a session of another daemon keeps
// the id of that daemon.
//
// State that a daemon has to itself, such as the record, jobs and undo, is not copied. A new shared
// table is copied without a change here; one that must not be copied is named in own (table.go), and
// one whose JSON holds the id of a daemon in moved (copy.go). Copies between a file and PostgreSQL are
// tested in tests/integration/stores_test.go; the tests here need no server.
package transfer

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Side is one of the two databases with its transcripts.
type Side struct {
	DB          *store.DB
	Name        string // for people; it holds no secret
	Transcripts sessions.Transcripts
}

// Progress reports how far a copy is.
type Progress struct {
	Step    string // "copy" or "verify"
	Table   string // or "transcripts"
	Rows    int64  // so far
	Of      int64
	Done    bool // this step is done for this table
	Resumed bool // the copy continues one that was interrupted
}

// Copied is what a table holds on both sides.
type Copied struct {
	Table  string `json:"table"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
}

// Plan is a copy of the data that daemons share.
type Plan struct {
	From, To Side
	Daemon   string         // id of the daemon that owns the file
	Replace  bool           // rows that the destination has are removed first; the destination must be a file
	Told     func(Progress) // called while Run copies and verifies; nil: nobody is told

	tables  []table
	resumed bool
}

// Run copies, or continues an interrupted copy, and verifies the result.
func (p *Plan) Run(ctx context.Context) (all []Copied, err error) {
	if p.tables, err = pairs(ctx, p.From.DB, p.To.DB); err != nil {
		return nil, err
	}
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	for _, t := range p.tables {
		if err := p.copyTable(ctx, t); err != nil {
			return nil, fmt.Errorf("copy %s: %w", t.name, err)
		}
	}
	if err := p.copyTranscripts(ctx); err != nil {
		return nil, fmt.Errorf("copy transcripts: %w", err)
	}
	if all, err = p.verify(ctx); err != nil {
		return nil, err
	}
	return all, p.To.DB.WriteSynced(ctx, p.To.DB.EndCopy)
}

// begin marks the destination, or finds the mark of an interrupted copy from the same source.
func (p *Plan) begin(ctx context.Context) error {
	unfinished, err := p.To.DB.UnfinishedFrom(ctx)
	if err != nil {
		return err
	}
	if unfinished != "" && unfinished != p.From.Name {
		return &tool.Error{
			Code: "store_unfinished", Hint: "end that copy first, or name another destination",
			Msg: fmt.Sprintf("a copy from %s into %s has not ended", unfinished, p.To.Name),
		}
	}
	p.resumed = unfinished != ""
	if p.resumed {
		return nil
	}
	old, err := p.To.Transcripts.Sizes(ctx)
	if err != nil {
		return err
	}
	if p.Replace {
		old = nil // copyTranscripts removes them once the mark is set
	}
	return p.To.DB.WriteSynced(ctx, func(tx *sql.Tx) error {
		for _, t := range p.tables {
			if p.Replace {
				if _, err := tx.Exec(`DELETE FROM ` + t.name); err != nil {
					return err
				}
			}
			var n int64
			if err := tx.QueryRow(`SELECT count(*) FROM ` + t.name).Scan(&n); err != nil {
				return err
			}
			if n > 0 || len(old) > 0 {
				return &tool.Error{
					Code: "store_not_empty",
					Msg:  fmt.Sprintf("%s is not empty: %s", p.To.Name, what(t.name, n, len(old))),
					Hint: "name an empty database or a new state directory; " +
						"--replace removes what a state directory has of before",
				}
			}
		}
		return p.To.DB.BeginCopy(tx, p.From.Name)
	})
}

func what(table string, rows int64, transcripts int) string {
	if rows > 0 {
		return fmt.Sprintf("table %s has %d rows", table, rows)
	}
	return fmt.Sprintf("it has %d transcripts", transcripts)
}

func (p *Plan) tell(step, table string, rows, of int64, done bool) {
	if p.Told != nil {
		p.Told(Progress{step, table, rows, of, done, p.resumed})
	}
}

// sessionsWith returns the ids of the sessions of a side that have a transcript, in order.
func sessionsWith(ctx context.Context, s Side) (ids []string, err error) {
	sizes, err := s.Transcripts.Sizes(ctx)
	if err != nil {
		return nil, err
	}
	err = s.DB.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT id FROM sessions WHERE deleted = 0`)
		if err != nil {
			return err
		}
		defer rows.Close()
		ids = nil
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			if _, has := sizes[id]; has { // a transcript without a session was left by a crash during a deletion
				ids = append(ids, id)
			}
		}
		return rows.Err()
	})
	slices.Sort(ids)
	return ids, err
}

// copyTranscripts copies the transcripts that the destination does not have.
func (p *Plan) copyTranscripts(ctx context.Context) error {
	ids, err := sessionsWith(ctx, p.From)
	if err != nil {
		return err
	}
	have, err := p.kept(ctx, ids)
	if err != nil {
		return err
	}
	for i, id := range ids {
		p.tell("copy", "transcripts", int64(i), int64(len(ids)), false)
		if have[id] {
			continue
		}
		if err := p.copyTranscript(ctx, id); err != nil {
			return err
		}
	}
	p.tell("copy", "transcripts", int64(len(ids)), int64(len(ids)), true)
	return ctx.Err()
}

// kept returns the transcripts that the destination already has in full. It removes files that an earlier state of
// the destination left. Rows of PostgreSQL are stored in full or not at all; verify compares their content.
func (p *Plan) kept(ctx context.Context, ids []string) (map[string]bool, error) {
	sizes, err := p.To.Transcripts.Sizes(ctx)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for id := range sizes {
		if _, found := slices.BinarySearch(ids, id); found {
			want, err := hashOf(p.From, id)
			if err != nil {
				return nil, err
			}
			got, err := hashOf(p.To, id)
			have[id] = err == nil && (bytes.Equal(want, got) || p.To.DB.Shared())
		}
		if have[id] {
			continue
		}
		if err := p.To.Transcripts.Remove(id); err != nil {
			return nil, err
		}
	}
	return have, nil
}

func (p *Plan) copyTranscript(ctx context.Context, id string) error {
	old, err := p.From.Transcripts.Read(id)
	if err != nil {
		return err
	}
	defer old.Close()
	fresh, err := p.To.Transcripts.Write(old.Meta, old, old.Meta.Messages, nil)
	if err != nil {
		return err
	}
	defer fresh.Drop() // has no effect once it was committed
	if err := p.To.DB.Write(ctx, func(tx *sql.Tx) error { return fresh.Place(tx, id) }); err != nil {
		return err
	}
	return fresh.Placed(id)
}
