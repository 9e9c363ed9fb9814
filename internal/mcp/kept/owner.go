package kept

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
)

// Owner says with whose rights the servers of a session run.
type Owner struct {
	UID    int    `json:"uid"`
	GID    int    `json:"gid"`
	Groups []int  `json:"groups"`
	Name   string `json:"name"`
	Home   string `json:"home"`
}

// SetOwner stores who created a session.
func (s *Store) SetOwner(ctx context.Context, session string, o Owner) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return s.own.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO mcp_owners (session, owner) VALUES ($1, $2)
			ON CONFLICT (session) DO UPDATE SET owner = excluded.owner`, session, string(text))
		return err
	})
}

// Owner returns who created a session. ok is false if that is unknown.
func (s *Store) Owner(ctx context.Context, session string) (o Owner, ok bool, err error) {
	var text string
	err = s.own.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT owner FROM mcp_owners WHERE session = $1`, session).Scan(&text)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return o, false, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &o)
	}
	return o, err == nil, err
}

// Forget deletes the owner of a session.
func Forget(tx *sql.Tx, session string) error {
	_, err := tx.Exec(`DELETE FROM mcp_owners WHERE session = $1`, session)
	return err
}
