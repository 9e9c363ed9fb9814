package sessions

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sandboxd/sandboxd/internal/store"
)

// Daemon returns the id of the daemon that has this database to itself: the name of its host, and what makes it the
// only one. It stays the same over restarts.
func Daemon(ctx context.Context, local *store.DB) (id string, err error) {
	err = local.Write(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRow(`SELECT id FROM this_daemon`).Scan(&id)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		id = host + "-" + strings.ToLower(rand.Text()[:8])
		_, err = tx.Exec(`INSERT INTO this_daemon (id) VALUES ($1)`, id)
		return err
	})
	return id, err
}

// Become gives a local database the id of a former daemon. The daemon of this database then owns the
// sessions of the former one. It fails if a daemon with another id has used the database.
func Become(ctx context.Context, local *store.DB, id string) error {
	return local.Write(ctx, func(tx *sql.Tx) error {
		var had string
		err := tx.QueryRow(`SELECT id FROM this_daemon`).Scan(&had)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			_, err = tx.Exec(`INSERT INTO this_daemon (id) VALUES ($1)`, id)
			return err
		case err == nil && had != id:
			return fmt.Errorf("it is of the daemon %q already", had)
		}
		return err
	})
}

// Daemons returns those that have sessions in a database that daemons share.
func Daemons(ctx context.Context, shared *store.DB) (all []string, err error) {
	err = shared.Read(ctx, func(tx *sql.Tx) error {
		return shared.Reading(tx).Each(func(row *sql.Rows) error {
			var id string
			if err := row.Scan(&id); err != nil {
				return err
			}
			all = append(all, id)
			return nil
		}, `SELECT DISTINCT data::jsonb->>'daemon' FROM sessions WHERE data::jsonb->>'daemon' <> '' ORDER BY 1`)
	})
	return all, err
}

// AllHere notes that the daemon of this database keeps something of each of its sessions, for the time when
// it shares them.
func AllHere(ctx context.Context, local *store.DB) error {
	return local.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO sessions_here (id, account, created)
			SELECT id, account, created FROM sessions WHERE deleted = 0
			ON CONFLICT (id) DO UPDATE SET account = excluded.account, created = excluded.created`)
		return err
	})
}
