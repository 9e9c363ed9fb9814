package vars

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// pieceBytes is how much of a value is in memory for one reader. Most values are one piece.
const pieceBytes = 1 << 20

// Value is the value of a variable, read from the database while it is passed on: a value
// of 16 MiB takes the memory of one piece, however slow its reader is.
type Value struct {
	s             *System
	session, name string
	updated       int64 // time of the value that is meant
	size          int64 // bytes
	whole         string
}

// Size returns how many bytes of the value are in memory at once.
func (v Value) Size() int64 { return min(v.size, pieceBytes) }

// Pieces yields the value in pieces, cut between characters. It yields [ErrChanged] if somebody changes the variable
// meanwhile; the caller must then drop the pieces it has.
func (v Value) Pieces(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if v.size <= pieceBytes {
			yield(v.whole, nil)
			return
		}
		rest := ""
		for at := int64(0); at < v.size; at += pieceBytes {
			piece, err := v.piece(ctx, at)
			if err != nil {
				yield("", err)
				return
			}
			piece = rest + piece
			end := lastCharacter(piece)
			rest = piece[end:]
			if !yield(piece[:end], nil) {
				return
			}
		}
		yield(rest, nil)
	}
}

// lastCharacter returns the offset of an incomplete character at the end of the text, or the length of the text.
func lastCharacter(s string) int {
	for i := len(s) - 1; i >= max(0, len(s)-utf8.UTFMax); i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return i
			}
			break
		}
	}
	return len(s)
}

// ErrChanged is a value that was changed while it was read.
var ErrChanged = errors.New("the variable was changed while it was read")

// piece reads one piece at offset at. The database loads the whole value into memory for this, so only one reader at a
// time reads a piece.
func (v Value) piece(ctx context.Context, at int64) (piece string, err error) {
	select {
	case v.s.large <- struct{}{}:
		defer func() { <-v.s.large }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer budget.Of(ctx).ComputeNext(ctx)() // readers of other accounts wait for the token
	err = v.s.db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT `+v.s.db.Text(`substr(`+valueOf+`, $4, $5)`)+` FROM vars
			WHERE session = $1 AND name = $2 AND updated = $3`, v.session, v.name, v.updated, at+1, pieceBytes).
			Scan(&piece)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrChanged
	}
	return piece, err
}

// Read returns a variable, and its value separately. It counts as a visit (V-08). It returns false if there is no such
// variable (V-11).
func (s *System) Read(ctx context.Context, session, name string) (Var, Value, bool, error) {
	var r record
	value := Value{s: s, session: session, name: name}
	err := s.write(ctx, session, func(_ *sql.Tx, _ *head) error {
		if err := s.visit(session, name, &r, &value.size); err != nil || value.size > pieceBytes {
			return err
		}
		return s.row(s.selectValue(), session, name).Scan(&value.whole)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Var{}, Value{}, false, nil
	}
	value.updated = r.updated
	v := r.public()
	v.Value = nil
	return v, value, err == nil, err
}

// whole reads a variable with its value, for the tool that shows it. Nobody waits for the write while a large value is
// read.
func (s *System) whole(ctx context.Context, session, name string) (r record, err error) {
	for { // again if somebody writes it meanwhile: its authors are others then
		err = s.write(ctx, session, func(_ *sql.Tx, h *head) error {
			var size int64
			if err := s.visit(session, name, &r, &size); err != nil {
				return err
			}
			if err := takeValue(ctx, name, size); err != nil {
				return err
			}
			s.shown(h, r.authored, r.hosts.List()) // the model sees it now
			return nil
		})
		if err != nil {
			return r, err
		}
		done := budget.Of(ctx).Compute(ctx) // the value may have megabytes
		err = s.db.Read(ctx, func(tx *sql.Tx) error {
			return s.readRow(tx, s.selectValue()+` AND updated = $3`, session, name, r.updated).Scan(&r.value)
		})
		done()
		if !errors.Is(err, sql.ErrNoRows) {
			return r, err
		}
	}
}

// takeValue takes memory for a value that is read as a whole.
func takeValue(ctx context.Context, name string, size int64) error {
	err := budget.Of(ctx).Take(size)
	if e, ok := errors.AsType[*tool.Error](err); ok {
		with := *e
		with.Msg = "variable " + name + ": " + e.Msg
		return &with
	}
	return err
}

// visit counts a visit of a variable, and reads all but its value.
func (s *System) visit(session, name string, r *record, size *int64) error {
	n, err := s.execCount(`UPDATE vars SET visited = $3, refs = refs + 1 WHERE session = $1 AND name = $2`,
		session, name, s.now())
	if err == nil && n == 0 {
		return sql.ErrNoRows
	}
	if err != nil {
		return err
	}
	row := s.row(`SELECT `+fields+`, `+sizeOf+` FROM vars WHERE session = $1 AND name = $2`, session, name)
	return row.Scan(append(r.targets(), size)...)
}

func (s *System) selectValue() string {
	return `SELECT ` + s.db.Text(valueOf) + ` FROM vars WHERE session = $1 AND name = $2`
}
