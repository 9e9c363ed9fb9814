package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// applicationID marks the file as one of sandboxd ("sbxd"). A database of another program is refused, and not filled
// with tables.
const applicationID = 0x73627864

type migration struct {
	version int
	file    string
	text    string
}

// migrate applies the migrations that are missing, all in one transaction: after a crash the database is as before.
func migrate(ctx context.Context, db *DB, schemas []Schema) error {
	return db.Write(ctx, func(tx *sql.Tx) error {
		claim, table := claim, "migrations"
		if db.shared != nil {
			claim, table = claimShared, "sandboxd_migrations"
		}
		if err := claim(tx); err != nil {
			return err
		}
		if err := db.whole(tx); err != nil && !(db.asIs && errors.Is(err, ErrUnfinished)) {
			return err
		}
		for _, s := range schemas {
			files := s.Files
			if db.shared != nil {
				if files = s.Postgres; files == nil {
					continue
				}
			}
			if err := migrateOne(tx, table, s.Name, files); err != nil {
				return fmt.Errorf("schema %s: %w", s.Name, err)
			}
		}
		return nil
	})
}

// claim marks an empty file as ours, and refuses the file of another program.
func claim(tx *sql.Tx) error {
	var id, tables int
	if err := tx.QueryRow(`PRAGMA application_id`).Scan(&id); err != nil {
		return err
	}
	if id == applicationID {
		return nil
	}
	if err := tx.QueryRow(`SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
		return err
	}
	if id != 0 || tables != 0 {
		return fmt.Errorf("%w: it holds the tables of another program", ErrCorrupt)
	}
	if _, err := tx.Exec(fmt.Sprintf(`PRAGMA application_id = %d`, applicationID)); err != nil {
		return err
	}
	_, err := tx.Exec(`CREATE TABLE migrations (
		name    TEXT NOT NULL,
		version INTEGER NOT NULL,
		applied TEXT NOT NULL,
		PRIMARY KEY (name, version))`)
	return err
}

// claimShared marks an empty database of PostgreSQL as ours, and refuses one of another program.
func claimShared(tx *sql.Tx) error {
	var ours bool
	var tables int
	err := tx.QueryRow(`SELECT to_regclass('sandboxd_migrations') IS NOT NULL, (SELECT count(*) FROM pg_class
		WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f'))`).
		Scan(&ours, &tables)
	if err != nil || ours {
		return err
	}
	if tables > 0 {
		return fmt.Errorf("%w: it holds the tables of another program", ErrCorrupt)
	}
	_, err = tx.Exec(`CREATE TABLE sandboxd_migrations (
		name    TEXT NOT NULL,
		version INTEGER NOT NULL,
		applied TEXT NOT NULL,
		PRIMARY KEY (name, version))`)
	return err
}

func migrateOne(tx *sql.Tx, table, name string, files fs.FS) error {
	all, err := migrations(files)
	if err != nil {
		return err
	}
	var have int
	if err := tx.QueryRow(`SELECT coalesce(max(version), 0) FROM `+table+` WHERE name = $1`,
		name).Scan(&have); err != nil {
		return err
	}
	if have > len(all) {
		return fmt.Errorf("%w: it has version %d, this program knows %d", ErrNewer, have, len(all))
	}
	for _, m := range all[have:] {
		if _, err := tx.Exec(m.text); err != nil {
			return fmt.Errorf("migration %s: %w", m.file, err)
		}
		_, err := tx.Exec(`INSERT INTO `+table+` (name, version, applied) VALUES ($1, $2, $3)`,
			name, m.version, time.Now().UTC().Format(time.RFC3339))
		if err != nil {
			return err
		}
	}
	return nil
}

// migrations reads the files in the order of their numbers: 1, 2, 3, … without a gap.
func migrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var all []migration
	for i, name := range names {
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %q: want a name that begins with %04d_", name, i+1)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		all = append(all, migration{version, name, string(text)})
	}
	return all, nil
}

// Texts returns the migrations for PostgreSQL.
func (s Schema) Texts() (all []string) {
	if s.Postgres == nil {
		return nil
	}
	files, err := migrations(s.Postgres)
	if err != nil {
		panic("cannot happen, the files are embedded: " + err.Error())
	}
	for _, m := range files {
		all = append(all, m.text)
	}
	return all
}
