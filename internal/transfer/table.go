package transfer

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/store"
)

// own are tables of PostgreSQL that are not copied row by row: transcripts are files beside a file,
// and daemons that say that they are there say so again.
var own = []string{"approval_daemons", "transcript_parts", "transcripts", "sandboxd_migrations", "sandboxd_copy"}

// table is one that both sides have.
type table struct {
	name    string
	columns []store.Column
	key     []int // positions in columns
}

// pairs are the tables that PostgreSQL has, which a file must have as well, with the same columns.
func pairs(ctx context.Context, a, b *store.DB) (all []table, err error) {
	shared, file := a, b
	if !a.Shared() {
		shared, file = b, a
	}
	these, err := shared.Tables(ctx)
	if err != nil {
		return nil, err
	}
	those, err := file.Tables(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range these {
		if slices.Contains(own, t.Name) {
			continue
		}
		i := slices.IndexFunc(those, func(o store.Table) bool { return o.Name == t.Name })
		if i < 0 {
			return nil, fmt.Errorf("cannot happen, a file has no table %s", t.Name)
		}
		want, got := names(t.Columns), names(those[i].Columns)
		if slices.Contains(want, "rowid") { // every table of a file has it, unsaid
			got = append(got, "rowid")
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) || len(t.Key) == 0 {
			return nil, fmt.Errorf("cannot happen, table %s is another one in a file: %v, want %v", t.Name, got, want)
		}
		one := table{name: t.Name, columns: t.Columns}
		for _, key := range t.Key {
			one.key = append(one.key, slices.Index(names(t.Columns), key))
		}
		all = append(all, one)
	}
	return all, nil
}

func names(columns []store.Column) (all []string) {
	for _, c := range columns {
		all = append(all, c.Name)
	}
	return all
}

// list is columns in a statement.
func (t table) list() string { return strings.Join(names(t.columns), ", ") }

// keys are the columns of the key in a statement for db, which orders texts by their bytes.
func (t table) keys(db *store.DB, suffix string) string {
	var all []string
	for _, k := range t.key {
		one := t.columns[k].Name
		if db.Shared() && t.columns[k].Type == "text" { // a file does so by itself
			one += ` COLLATE "C"`
		}
		all = append(all, one+suffix)
	}
	return strings.Join(all, ", ")
}

// last is the key of the last row, nil in an empty table.
func (t table) last(ctx context.Context, db *store.DB) (key []any, err error) {
	err = db.Read(ctx, func(tx *sql.Tx) error {
		key = t.cells(t.key)
		err := tx.QueryRowContext(ctx, `SELECT `+t.keys(db, "")+` FROM `+t.name+
			` ORDER BY `+t.keys(db, " DESC")+` LIMIT 1`).Scan(key...)
		if err == sql.ErrNoRows {
			key, err = nil, nil
		}
		return err
	})
	return key, err
}

// cells are places for the values of columns.
func (t table) cells(which []int) (all []any) {
	for _, i := range which {
		switch t.columns[i].Type {
		case "bigint", "integer":
			all = append(all, &sql.NullInt64{})
		case "bytea":
			all = append(all, &[]byte{})
		default:
			all = append(all, &sql.NullString{})
		}
	}
	return all
}

// pageRows is how many rows one read has: it is short, so that no timeout of the database ends it.
const pageRows = 500

// each calls fn with each row behind a key, nil for the first, in the order of the keys.
func (t table) each(ctx context.Context, db *store.DB, after []any, fn func(row []any) error) error {
	all := make([]int, len(t.columns))
	for i := range all {
		all[i] = i
	}
	for {
		rows := 0
		err := db.Read(ctx, func(tx *sql.Tx) error {
			where := ""
			if after != nil {
				var marks []string
				for i := range after {
					marks = append(marks, fmt.Sprintf("$%d", i+1))
				}
				where = ` WHERE (` + t.keys(db, "") + `) > (` + strings.Join(marks, ", ") + `)`
			}
			found, err := tx.QueryContext(ctx, `SELECT `+t.list()+` FROM `+t.name+where+` ORDER BY `+t.keys(db, "")+
				fmt.Sprintf(` LIMIT %d`, pageRows), after...)
			if err != nil {
				return err
			}
			defer found.Close()
			for found.Next() {
				row := t.cells(all)
				if err := found.Scan(row...); err != nil {
					return err
				}
				if err := fn(row); err != nil {
					return err
				}
				rows++
				after = nil
				for _, k := range t.key {
					after = append(after, row[k])
				}
			}
			return found.Err()
		})
		if err != nil || rows < pageRows {
			return err
		}
	}
}

func (t table) count(ctx context.Context, db *store.DB) (n int64, err error) {
	err = db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM `+t.name).Scan(&n)
	})
	return n, err
}
