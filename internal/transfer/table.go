package transfer

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/store"
)

// own lists tables of PostgreSQL that are not copied row by row. Over a file, transcripts are files; and the rows of
// running daemons are written again by these daemons.
var own = []string{"approval_daemons", "transcript_parts", "transcripts", "sandboxd_migrations", "sandboxd_copy"}

// table is a table that both sides have.
type table struct {
	name    string
	columns []store.Column
	key     []int // positions in columns
}

// pairs returns the tables of PostgreSQL. It is an error if the file lacks one of them or has other columns.
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
		if slices.Contains(want, "rowid") { // every table of a file has this column implicitly
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

// list returns the columns as they stand in a statement.
func (t table) list() string { return strings.Join(names(t.columns), ", ") }

// keys returns the columns of the key as they stand in a statement for db, so that texts are ordered by their bytes.
func (t table) keys(db *store.DB, suffix string) string {
	var all []string
	for _, k := range t.key {
		one := t.columns[k].Name
		if db.Shared() && t.columns[k].Type == "text" { // SQLite orders so by default
			one += ` COLLATE "C"`
		}
		all = append(all, one+suffix)
	}
	return strings.Join(all, ", ")
}

// last returns the key of the last row. It returns nil for an empty table.
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

// cells returns variables that the values of some columns can be scanned into.
func (t table) cells(which []int) (all []any) {
	for _, i := range which {
		switch t.columns[i].Type {
		case "bigint", "integer":
			all = append(all, &sql.NullInt64{})
		case "bytea":
			all = append(all, &sql.Null[[]byte]{})
		default:
			all = append(all, &sql.NullString{})
		}
	}
	return all
}

// pageRows is the number of rows of one read. It is small, so that no timeout of the database ends the read.
const pageRows = 500

// each calls fn with each row after a key, in the order of the keys. nil means from the first row.
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
