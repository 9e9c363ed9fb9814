// Package kept is what a daemon keeps of MCP servers: what their tools said of themselves when they were let in, and
// with whose rights the servers of a session run.
//
// A pin is the SHA-256 of the canonical definition of one tool, for an account and the configuration of a server.
// [Store.Compare] says of each tool of a list whether it is as it was, and remembers a server that is seen for
// the first time:
//
//	states, err := store.Compare(ctx, server, offered, true) // true: first sight pins
//	// states["read"].Why: "" as pinned, or why it is withheld
//	err = store.Accept(ctx, server, tool)
//
// Pins survive restarts, and daemons may share them: [Store.Changes] tells when they may have changed, and
// [Store.Holds] says of one tool whether its pin still is the one that was seen. A server that once was seen without
// a tool does not get that tool pinned by itself later, and neither does a tool that asks for a person.
package kept

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
)

//go:embed migrations
var migrations embed.FS

// Schema are the tables. Daemons share the pins alone.
func Schema() store.Schema { return store.EmbeddedBoth("mcp", migrations) }

// Store is that of a database. It is safe for concurrent use.
type Store struct{ db, own *store.DB }

// New returns what is kept: pins in db, which daemons may share, and the rest in the daemon's own.
func New(db, own *store.DB) *Store { return &Store{db, own} }

// changes is what daemons tell each other of: definitions that a person let in.
const changes = "mcp_pins"

// Changes is that of the database of the pins.
func (s *Store) Changes(ctx context.Context) <-chan struct{} { return s.db.Changes(ctx, changes) }

// Server is what pins belong to.
type Server struct {
	Account string
	Config  string // digest of what starts it, or of its address
	Name    string // for people
}

// Tool is a definition that a server offers.
type Tool struct {
	Name string
	Text []byte // canonical
	Ask  bool   // it is never let in before a person has looked at it
}

// Pin is the digest of the definition.
func (t Tool) Pin() string {
	sum := sha256.Sum256(t.Text)
	return hex.EncodeToString(sum[:])
}

// State says whether a tool is as it was. The zero value: it is.
type State struct {
	Why string // one of those below; the tool is withheld until a person accepts it
	Was string // the definition that is pinned, of one that changed
}

// The reasons of a State.
const (
	Changed    = "changed"
	Added      = "new"
	FirstSight = "first sight"
	Flagged    = "flagged"
)

// byPerson is who accepted a definition, where it was not first sight.
const byPerson = "a person"

// Pinned is one pin, for people.
type Pinned struct {
	Account string    `json:"account"`
	Server  string    `json:"server"`
	Config  string    `json:"config"`
	Tool    string    `json:"tool"`
	Pin     string    `json:"pin"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
}

// Compare says of each tool whether it is as it was. Tools of a server that was never seen are pinned if trust says
// so, except those that ask.
func (s *Store) Compare(ctx context.Context, of Server, tools []Tool, trust bool) (map[string]State, error) {
	var states map[string]State
	var fresh []Tool
	compare := func(tx *sql.Tx) (err error) {
		states, fresh, err = compare(tx, of, tools, trust)
		return err
	}
	if err := s.db.Read(ctx, compare); err != nil || len(fresh) == 0 {
		return states, err
	}
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		err := compare(tx)
		for _, t := range fresh {
			if err == nil {
				err = s.put(tx, of, t, FirstSight)
			}
		}
		return err
	})
	return states, err
}

// compare is Compare, with what is to be pinned. A server that is seen for the first time is pinned as a tool
// without a name.
func compare(tx *sql.Tx, of Server, tools []Tool, trust bool) (states map[string]State, fresh []Tool, err error) {
	known, err := pinned(tx, of)
	if err != nil {
		return nil, nil, err
	}
	states = map[string]State{}
	_, seen := known[""]
	if !seen {
		fresh = append(fresh, Tool{})
	}
	for _, t := range tools {
		was, has := known[t.Name]
		switch {
		case has && was.text != string(t.Text):
			states[t.Name] = State{Why: Changed, Was: was.text}
		case t.Ask && was.by != byPerson:
			states[t.Name] = State{Why: Flagged}
		case has:
			states[t.Name] = State{}
		case seen:
			states[t.Name] = State{Why: Added}
		case !trust:
			states[t.Name] = State{Why: FirstSight}
		default:
			states[t.Name] = State{}
			fresh = append(fresh, t)
		}
	}
	return states, fresh, nil
}

// Holds reports whether a pin is the one of a tool now: somebody may have let in another definition since.
func (s *Store) Holds(ctx context.Context, of Server, tool, pin string) (holds bool, err error) {
	var now string
	err = s.db.Read(ctx, func(tx *sql.Tx) error {
		return s.db.Reading(tx).Row(`SELECT pin FROM mcp_pins WHERE account = $1 AND config = $2 AND tool = $3`,
			of.Account, of.Config, tool).Scan(&now)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return now == pin, err
}

// Accept pins a definition that a person has looked at, in place of the one before.
func (s *Store) Accept(ctx context.Context, of Server, t Tool) error {
	if t.Name == "" {
		return errors.New("pin a tool without a name")
	}
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		return errors.Join(s.put(tx, of, t, byPerson), s.db.Notify(tx, changes))
	})
}

// All are the pins of an account, "" being all accounts.
func (s *Store) All(ctx context.Context, account string) ([]Pinned, error) {
	all := []Pinned{}
	err := s.db.Read(ctx, func(tx *sql.Tx) error {
		all = all[:0]
		rows, err := tx.Query(`SELECT account, server, config, tool, pin, by_whom, at FROM mcp_pins
			WHERE tool <> '' AND ($1 = '' OR account = $1) ORDER BY account, server, config, tool`, account)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var p Pinned
			var at int64
			if err := rows.Scan(&p.Account, &p.Server, &p.Config, &p.Tool, &p.Pin, &p.By, &at); err != nil {
				return err
			}
			p.At = time.Unix(at, 0).UTC()
			all = append(all, p)
		}
		return rows.Err()
	})
	return all, err
}

// definition is one that is pinned.
type definition struct{ text, by string }

func pinned(tx *sql.Tx, of Server) (map[string]definition, error) {
	rows, err := tx.Query(`SELECT tool, definition, by_whom FROM mcp_pins WHERE account = $1 AND config = $2`,
		of.Account, of.Config)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	known := map[string]definition{}
	for rows.Next() {
		var name string
		var d definition
		if err := rows.Scan(&name, &d.text, &d.by); err != nil {
			return nil, err
		}
		known[name] = d
	}
	return known, rows.Err()
}

func (s *Store) put(tx *sql.Tx, of Server, t Tool, by string) error {
	_, err := tx.Exec(`INSERT INTO mcp_pins (account, config, tool, server, pin, definition, by_whom, at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (account, config, tool) DO UPDATE SET server = excluded.server, pin = excluded.pin,
			definition = excluded.definition, by_whom = excluded.by_whom, at = excluded.at`,
		of.Account, of.Config, t.Name, of.Name, t.Pin(), string(t.Text), by, s.db.Now().Unix())
	return err
}
