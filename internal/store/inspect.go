package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// daemons is the name that connections of daemons have at PostgreSQL.
const daemons = "sandboxd"

// Version is the version that the tables of a package have, and the one that this program needs.
type Version struct {
	Name       string
	Have, Want int
}

// Migrate brings the schemas of a database up to date that was opened AsIs. Over PostgreSQL several programs may do
// that at once.
func (db *DB) Migrate(ctx context.Context, schemas ...Schema) error { return migrate(ctx, db, schemas) }

// Versions returns the versions of the schemas that have tables in this database, and changes nothing. In an empty
// database each has version 0. A database of another program is [ErrCorrupt].
func (db *DB) Versions(ctx context.Context, schemas ...Schema) (all []Version, err error) {
	err = db.Read(ctx, func(tx *sql.Tx) error {
		all = nil
		table, empty, err := db.ours(tx)
		if err != nil {
			return err
		}
		for _, s := range schemas {
			files := s.Files
			if db.shared != nil {
				files = s.Postgres
			}
			if files == nil {
				continue
			}
			known, err := migrations(files)
			if err != nil {
				return err
			}
			if len(known) == 0 {
				continue
			}
			v := Version{Name: s.Name, Want: len(known)}
			if !empty {
				err = tx.QueryRow(`SELECT coalesce(max(version), 0) FROM `+table+` WHERE name = $1`,
					s.Name).Scan(&v.Have)
			}
			if err != nil {
				return err
			}
			all = append(all, v)
		}
		return nil
	})
	return all, clear(err)
}

// ours returns the name of the table of migrations, and whether the database has no tables.
func (db *DB) ours(tx *sql.Tx) (table string, empty bool, err error) {
	var ours bool
	var tables int
	if db.shared != nil {
		table = "sandboxd_migrations"
		err = tx.QueryRow(`SELECT to_regclass('sandboxd_migrations') IS NOT NULL, (SELECT count(*) FROM pg_class
			WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f'))`).
			Scan(&ours, &tables)
	} else {
		table = "migrations"
		var id int
		err = tx.QueryRow(`PRAGMA application_id`).Scan(&id)
		if err == nil {
			err = tx.QueryRow(`SELECT count(*) FROM sqlite_schema`).Scan(&tables)
		}
		ours = id == applicationID
		tables += id
	}
	if err == nil && !ours && tables > 0 {
		err = fmt.Errorf("%w: it holds the tables of another program", ErrCorrupt)
	}
	return table, !ours, err
}

// Table describes a table of the database.
type Table struct {
	Name    string
	Columns []Column
	Key     []string // columns of the primary key, in its order
}

// Column describes a column of a table.
type Column struct {
	Name, Type string // "text", "bigint" and "bytea" over PostgreSQL
	Sequence   bool   // the database itself numbers it
}

// Tables returns the tables, sorted by name. Those of a file have neither keys nor types.
func (db *DB) Tables(ctx context.Context) (all []Table, err error) {
	query := `SELECT m.name, c.name, '', 0, -1 FROM sqlite_schema m JOIN pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY 1, c.cid`
	if db.shared != nil {
		query = `SELECT c.relname, a.attname, format_type(a.atttypid, NULL),
			CASE WHEN a.attidentity <> '' THEN 1 ELSE 0 END,
			coalesce(array_position(i.indkey::smallint[], a.attnum), -1)
			FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
			LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
			WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' ORDER BY 1, a.attnum`
	}
	err = db.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		defer rows.Close()
		all = nil
		keys := map[int]string{}
		end := func() {
			if len(all) == 0 {
				return
			}
			order := make([]int, 0, len(keys))
			for at := range keys {
				order = append(order, at)
			}
			slices.Sort(order)
			for _, at := range order {
				all[len(all)-1].Key = append(all[len(all)-1].Key, keys[at])
			}
			keys = map[int]string{}
		}
		for rows.Next() {
			var table string
			var c Column
			var at int
			if err := rows.Scan(&table, &c.Name, &c.Type, &c.Sequence, &at); err != nil {
				return err
			}
			if len(all) == 0 || all[len(all)-1].Name != table {
				end()
				all = append(all, Table{Name: table})
			}
			t := &all[len(all)-1]
			t.Columns = append(t.Columns, c)
			if at >= 0 {
				keys[at] = c.Name
			}
		}
		end()
		return rows.Err()
	})
	return all, clear(err)
}

// Size returns how many bytes the database takes.
func (db *DB) Size(ctx context.Context) (n int64, err error) {
	query := `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`
	if db.shared != nil {
		query = `SELECT pg_database_size(current_database())`
	}
	err = db.Read(ctx, func(tx *sql.Tx) error { return tx.QueryRow(query).Scan(&n) })
	return n, clear(err)
}

// Connected returns how many connections daemons have to a database of PostgreSQL.
func (db *DB) Connected(ctx context.Context) (n int, err error) {
	err = db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1`, daemons).Scan(&n)
	})
	return n, err
}

// Alone keeps all others from writing to a database of PostgreSQL until db is closed. It returns false if somebody
// else does that already. If its connection is lost, all later writes fail.
func (db *DB) Alone(ctx context.Context) (alone bool, err error) {
	release, err := db.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	if db.conn == nil {
		if db.conn, err = db.writer.Conn(ctx); err != nil {
			db.conn = nil
			return false, clearShared(err)
		}
	}
	err = db.conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, writeLock).Scan(&alone)
	db.shared.alone = alone
	return alone, clearShared(err)
}

// LastNumber returns the last number that the database itself gave to a row of this column. 0 is none.
func (db *DB) LastNumber(tx *sql.Tx, table, column string) (n int64, err error) {
	if db.shared == nil {
		err = tx.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_sequence'`).Scan(&n)
		if err != nil || n == 0 {
			return 0, err
		}
		err = tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = $1`, table).Scan(&n)
		return n, err
	}
	name, err := sequence(tx, table, column)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow(`SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ` + name).Scan(&n)
	return n, err
}

// NumberAfter makes the next number of this column greater than n and than all numbers in it.
func (db *DB) NumberAfter(tx *sql.Tx, table, column string, n int64) error {
	var most int64
	if err := tx.QueryRow(`SELECT coalesce(max(` + column + `), 0) FROM ` + table).Scan(&most); err != nil {
		return err
	}
	if n = max(n, most); n == 0 {
		return nil
	}
	if db.shared != nil {
		name, err := sequence(tx, table, column)
		if err == nil {
			_, err = tx.Exec(`SELECT setval($1::regclass, $2)`, name, n)
		}
		return err
	}
	// Only a table with AUTOINCREMENT has such a row. Others take the number after the greatest.
	var text string
	err := tx.QueryRow(`SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = $1`, table).Scan(&text)
	if err != nil || !strings.Contains(text, "AUTOINCREMENT") {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM sqlite_sequence WHERE name = $1`, table); err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO sqlite_sequence (name, seq) VALUES ($1, $2)`, table, n)
	return err
}

func sequence(tx *sql.Tx, table, column string) (name string, err error) {
	err = tx.QueryRow(`SELECT pg_get_serial_sequence($1, $2)`, table, column).Scan(&name)
	return name, err
}

// Rows returns how many rows each table has, sorted by name.
func (db *DB) Rows(ctx context.Context) (all []Count, err error) {
	tables, err := db.Tables(ctx)
	if err != nil {
		return nil, err
	}
	err = db.Read(ctx, func(tx *sql.Tx) error {
		all = nil
		for _, t := range tables {
			c := Count{Name: t.Name}
			if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM `+t.Name).Scan(&c.Rows); err != nil {
				return err
			}
			all = append(all, c)
		}
		return nil
	})
	return all, err
}

// Count is how many rows a table has.
type Count struct {
	Name string
	Rows int64
}
