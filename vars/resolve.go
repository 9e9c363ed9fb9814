package vars

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/tool"
)

// Resolve replaces every reference in the strings of args, once (V-20 to V-29),
// and says who wrote each top-level argument: the model where it wrote any of it,
// the authors of what came in by reference, and those of outside text that the
// argument copies. An error means that nothing was read.
func (s *System) Resolve(ctx context.Context, session string, args json.RawMessage) (json.RawMessage, tool.Origins, error) {
	var r resolved
	err := errNotAtHand
	if !bytes.Contains(args, []byte(opening)) { // one that is spelled with escapes is found below
		var h head
		if h, err = s.head(ctx, session); err == nil {
			r, err = s.resolve(nil, h, args)
		}
	}
	if errors.Is(err, errNotAtHand) || errors.Is(err, errNoSession) {
		err = s.read(ctx, session, func(tx *sql.Tx, h head) (err error) {
			r, err = s.resolve(tx, h, args)
			return err
		})
	}
	if err != nil {
		return nil, tool.Origins{}, err
	}
	if len(r.used) > 0 {
		if err := s.visitAll(ctx, session, r.used); err != nil {
			return nil, tool.Origins{}, err
		}
	}
	origins := tool.Origins{Session: r.released.list()}
	if len(r.by) > 0 {
		origins.Args = make(map[string][]tool.Origin, len(r.by))
	}
	for field, a := range r.by {
		origins.Args[field] = a.list()
	}
	return r.args, origins, nil
}

// resolved is arguments without references.
type resolved struct {
	args     json.RawMessage
	by       map[string]authors // of each field
	used     []string           // names of the variables that came in
	released authors
}

// errNotAtHand is the lack of a transaction, which most arguments do not need.
var errNotAtHand = errors.New("the database must be asked")

// resolve does the work of Resolve; a nil tx is one that is begun only if needed.
func (s *System) resolve(tx *sql.Tx, h head, args json.RawMessage) (resolved, error) {
	e := s.expander(tx, h.session)
	out, by, err := resolve(e, args, func(text string) (authors, error) { return s.copied(tx, h, text) })
	return resolved{out, by, e.names, h.released}, err
}

func resolve(e *expander, args json.RawMessage, copied func(string) (authors, error)) (json.RawMessage, map[string]authors, error) {
	by := map[string]authors{}
	out, fields, err := rewriteStrings(args, func(field, in string) ([]byte, bool, error) {
		if !strings.Contains(in, opening) {
			a, err := copied(in)
			by[field] |= a | byModel
			return nil, false, err
		}
		text, from, err := e.expand(make([]byte, 0, len(in)), in, nil)
		if err != nil {
			return nil, false, err
		}
		a, err := copied(string(text))
		if by[field] |= a | from; !onlyReferences(in) {
			by[field] |= byModel
		}
		return text, true, err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, field := range fields { // numbers and flags are the model's too
		if by[field] == 0 {
			by[field] = byModel
		}
	}
	return out, by, nil
}

// onlyReferences reports whether a text is nothing but references: then the model
// chose the value but wrote none of it.
func onlyReferences(in string) bool {
	at := 0
	for at < len(in) {
		ref, ok := nextReference(in, at)
		if !ok || ref.start != at {
			return false
		}
		at = ref.end
	}
	return true
}

func (s *System) expander(tx *sql.Tx, session string) *expander {
	return &expander{
		limit:  s.o.MaxExpanded,
		values: map[string]*value{},
		load: func(name string) (*value, error) {
			if tx == nil {
				return nil, errNotAtHand
			}
			r, err := found(tx.QueryRow(selectVar, session, name))
			if err != nil || r == nil {
				return nil, err
			}
			purpose := (r.typ == TypeModel || r.typ == TypeUser) && r.authored&^onPurpose == 0
			return &value{
				text:    text{s: r.value, length: r.length},
				nested:  purpose || s.o.Nested == NestedAll,
				origins: r.origins,
			}, nil
		},
		available: func() ([]string, error) { return names(tx, session) },
	}
}

// namesShown bounds the message of an unknown name.
const namesShown = 20

func names(tx *sql.Tx, session string) ([]string, error) {
	var total int
	if err := tx.QueryRow(`SELECT count(*) FROM vars WHERE session = $1`, session).Scan(&total); err != nil {
		return nil, err
	}
	rows, err := tx.Query(`SELECT name FROM vars WHERE session = $1
		ORDER BY visited DESC, updated DESC, created DESC, name LIMIT $2`, session, namesShown)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		list = append(list, name)
	}
	if total > namesShown {
		list = append(list, fmt.Sprintf("… and %d more", total-namesShown))
	}
	return list, rows.Err()
}

// visitAll counts one visit of each variable; one that is gone meanwhile is not
// missed.
func (s *System) visitAll(ctx context.Context, session string, names []string) error {
	return s.write(ctx, session, func(*sql.Tx, *head) error {
		now := s.now()
		for _, name := range names {
			err := s.exec(`UPDATE vars SET visited = $3, refs = refs + 1 WHERE session = $1 AND name = $2`, session, name, now)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
