// Package kept stores what a daemon keeps of MCP servers: what their tools said of themselves when
// they were let in (pins), and with whose rights the servers of a session run (owners).
//
// A pin belongs to an account, the configuration of a server and a tool. It has the canonical
// definition of the tool and its SHA-256. [Store.Compare] compares a list of tools with the pins.
// If the server was never seen and trust is set, it pins the tools:
//
//	k := kept.New(shared, own) // databases with Schema, which may be one
//	server := kept.Server{Account: "uid-1000", Config: digest, Name: "git"}
//	states, err := k.Compare(ctx, server, offered, true) // true: first sight pins
//	// states["read"].Why: kept.Same, or why it is withheld
//	err = k.Accept(ctx, server, tool) // after a person has looked at the definition
//
// Compare also remembers that it has seen the server. What it did not pin then (trust was not set,
// the tool asks for a person, or the server did not have it) only Accept pins; later Compares say
// Added, or Flagged. Of a pinned tool with another definition they say Changed.
//
// Pins survive restarts, and daemons may share them. [Store.Changes] tells that a person may have
// accepted a definition, at any daemon: read the pins again. [Store.Holds] says whether the pin of
// one tool is still the one that the caller saw, and [Store.All] lists pins for people. Owners are
// of one daemon: [Store.SetOwner] stores one when a session is made, [Store.Owner] reads it, and
// [Forget] deletes it in the transaction that deletes the session.
//
// The package does not make definitions canonical and does not judge them: callers do, with package
// vet. Nothing here keeps a tool from a model: callers withhold it. After an error, offer no tool.
//
// A change of the tables is a new file in migrations; if it is about pins, one in migrations/postgres too.
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

// Schema returns the tables. Daemons share the pins only.
func Schema() store.Schema { return store.EmbeddedBoth("mcp", migrations) }

// Store stores pins and owners. It is safe for concurrent use.
type Store struct{ db, own *store.DB }

// New returns a store with its pins in db, which daemons may share, and its owners in own.
func New(db, own *store.DB) *Store { return &Store{db, own} }

// changes is the name of the notification that a person accepted a definition.
const changes = "mcp_pins"

// Changes returns the channel for this notification of the database of the pins.
func (s *Store) Changes(ctx context.Context) <-chan struct{} { return s.db.Changes(ctx, changes) }

// Server is the server that pins belong to.
type Server struct {
	Account string
	Config  string // digest of its command line or address
	Name    string // for people
}

// Tool is a definition that a server offers.
type Tool struct {
	Name string
	Text []byte // canonical
	Ask  bool   // a person must look at it before it is let in
}

// Pin returns the digest of the definition.
func (t Tool) Pin() string {
	sum := sha256.Sum256(t.Text)
	return hex.EncodeToString(sum[:])
}

// State is the state of a tool.
type State struct {
	Why string // one of those below; with any other than Same, withhold the tool until a person accepts it
	Was string // the pinned definition, if it has changed
}

// What Why of a State says.
const (
	Same       = "as pinned"
	Changed    = "changed"
	Added      = "new"
	FirstSight = "first sight"
	Flagged    = "flagged"
)

// byPerson is the author of a pin that a person accepted.
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

// Compare returns the state of each tool. If the server is new and trust is set, it pins all tools except those with
// Ask.
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

// compare is Compare within a transaction. A server is remembered by a pin without a tool name.
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
			states[t.Name] = State{Why: Same}
		case seen:
			states[t.Name] = State{Why: Added}
		case !trust:
			states[t.Name] = State{Why: FirstSight}
		default:
			states[t.Name] = State{Why: Same}
			fresh = append(fresh, t)
		}
	}
	return states, fresh, nil
}

// Holds reports whether a pin is still the current one of a tool. Somebody may have accepted another definition
// since.
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

// Accept replaces the pin of a tool after a person has looked at its definition.
func (s *Store) Accept(ctx context.Context, of Server, t Tool) error {
	if t.Name == "" {
		return errors.New("pin a tool without a name")
	}
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		return errors.Join(s.put(tx, of, t, byPerson), s.db.Notify(tx, changes))
	})
}

// All returns the pins of an account. "" means all accounts.
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

// definition is a pinned definition.
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
