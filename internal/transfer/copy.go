package transfer

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
)

// A batch ends when it reaches either bound.
const (
	batchRows  = 200
	batchBytes = 1 << 20
)

// copyTable copies the rows after the last one that the destination has.
func (p *Plan) copyTable(ctx context.Context, t table) error {
	of, err := t.count(ctx, p.From.DB)
	if err != nil {
		return err
	}
	done, err := t.count(ctx, p.To.DB)
	if err != nil {
		return err
	}
	after, err := t.last(ctx, p.To.DB)
	if err != nil {
		return err
	}
	var batch [][]any
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := p.insert(ctx, t, batch); err != nil {
			return err
		}
		done += int64(len(batch))
		batch, size = nil, 0
		p.tell("copy", t.name, done, of, false)
		return ctx.Err()
	}
	err = t.each(ctx, p.From.DB, after, func(row []any) error {
		if err := p.moved(t, row); err != nil {
			return err
		}
		batch, size = append(batch, row), size+bytesOf(row)
		if len(batch) < batchRows && size < batchBytes {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = p.number(ctx, t)
	}
	if err != nil {
		return err
	}
	p.tell("copy", t.name, done, of, true)
	return nil
}

// insert stores a batch. After an error it is unknown which of its rows were stored; the next try finds out.
func (p *Plan) insert(ctx context.Context, t table, batch [][]any) error {
	var q strings.Builder
	q.WriteString(`INSERT INTO ` + t.name + ` (` + t.list() + `) VALUES `)
	var args []any
	for i, row := range batch {
		if i > 0 {
			q.WriteString(", ")
		}
		for j, cell := range row {
			q.WriteByte("(,"[min(j, 1)])
			args = append(args, value(cell))
			fmt.Fprintf(&q, "$%d", len(args))
		}
		q.WriteByte(')')
	}
	err := p.To.DB.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, q.String(), args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("the rows from %s to %s: %w", t.row(batch[0]), t.row(batch[len(batch)-1]), err)
	}
	return nil
}

// row returns the key of a row, for error messages.
func (t table) row(row []any) string {
	var all []string
	for _, k := range t.key {
		all = append(all, fmt.Sprintf("%v", value(row[k])))
	}
	return fmt.Sprintf("%q", strings.Join(all, "/"))
}

// value returns the value of a cell; nil means NULL.
func value(cell any) any {
	switch c := cell.(type) {
	case *sql.NullInt64:
		if c.Valid {
			return c.Int64
		}
	case *sql.NullString:
		if c.Valid {
			return c.String
		}
	case *sql.Null[[]byte]:
		if c.Valid && c.V == nil { // the driver of SQLite gives no bytes as nil, which would be stored as NULL
			return []byte{}
		}
		if c.Valid {
			return c.V
		}
	}
	return nil
}

func bytesOf(row []any) (n int) {
	for _, cell := range row {
		switch c := cell.(type) {
		case *sql.NullString:
			n += len(c.String)
		case *sql.Null[[]byte]:
			n += len(c.V)
		}
	}
	return n
}

// moved changes a row of the source into one of the destination: it sets the id of the daemon that the row belongs
// to there.
func (p *Plan) moved(t table, row []any) error {
	for i, c := range t.columns {
		cell, text := row[i].(*sql.NullString)
		switch {
		case !text:
		case c.Name == "daemon":
			cell.String = p.daemon(cell.String, false)
		case t.name == "sessions" && c.Name == "data", t.name == "approval_questions" && c.Name == "item":
			var err error
			// A session of another daemon keeps its id, because its files are not here.
			if cell.String, err = p.document(cell.String, t.name == "sessions"); err != nil {
				return fmt.Errorf("row %s: %w", t.row(row), err)
			}
		}
	}
	return nil
}

// daemon returns the id that a row of this daemon has at the destination.
func (p *Plan) daemon(id string, stays bool) string {
	switch {
	case p.To.DB.Shared() && id == "":
		return p.Daemon
	case p.To.DB.Shared(), stays && id != p.Daemon:
		return id
	}
	return ""
}

// document replaces the id of the daemon in a JSON object by the one at the destination.
func (p *Plan) document(text string, stays bool) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil || fields == nil {
		return "", fmt.Errorf("it is damaged: %w", err)
	}
	var id string
	if had, found := fields["daemon"]; found {
		if err := json.Unmarshal(had, &id); err != nil {
			return "", err
		}
	}
	next := p.daemon(id, stays)
	if next == id {
		return text, nil
	}
	delete(fields, "daemon")
	if next != "" {
		encoded, err := json.Marshal(next)
		if err != nil {
			return "", err
		}
		fields["daemon"] = encoded
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(fields)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// number sets the sequences of the destination so that new rows get numbers above those of the source. No number is
// used for two rows.
func (p *Plan) number(ctx context.Context, t table) error {
	for _, c := range t.columns {
		if !c.Sequence {
			continue
		}
		var last int64
		err := p.From.DB.Read(ctx, func(tx *sql.Tx) (err error) {
			last, err = p.From.DB.LastNumber(tx, t.name, c.Name)
			return err
		})
		if err == nil {
			err = p.To.DB.Write(ctx, func(tx *sql.Tx) error { return p.To.DB.NumberAfter(tx, t.name, c.Name, last) })
		}
		if err != nil {
			return fmt.Errorf("the numbers of %s: %w", c.Name, err)
		}
	}
	return nil
}
