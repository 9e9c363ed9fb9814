package vars

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Resolve replaces every reference in the strings of args, once (V-20 to V-29),
// and says who wrote each top-level argument. The authors are those of the values that came
// in by reference, those of outside text that the argument copies, and the model if it wrote,
// cut or joined any part. An error means that nothing was read.
func (s *System) Resolve(ctx context.Context, session string, args json.RawMessage) (
	json.RawMessage, tool.Origins, error,
) {
	var r resolved
	err := errNotAtHand
	if !bytes.Contains(args, []byte(opening)) { // one that is spelled with escapes is found below
		var h head
		if h, err = s.head(ctx, session); err == nil {
			r, err = s.resolve(ctx, nil, h, args)
		}
	}
	if errors.Is(err, errNotAtHand) || errors.Is(err, errNoSession) {
		err = s.read(ctx, session, func(tx *sql.Tx, h head) (err error) {
			r, err = s.resolve(ctx, tx, h, args)
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
	origins := tool.Origins{Session: r.heard.List(), Hosts: r.hosts.List()}
	if len(r.by) > 0 {
		origins.Args = make(map[string][]tool.Origin, len(r.by))
	}
	for field, a := range r.by {
		origins.Args[field] = a.List()
	}
	return r.args, origins, nil
}

// resolved is arguments without references.
type resolved struct {
	args  json.RawMessage
	by    map[string]provenance.Authors // of each field
	used  []string                      // names of the variables that came in
	heard provenance.Authors
	hosts provenance.Hosts // of both
}

// errNotAtHand says that the work needs a transaction. Most arguments need none, so it is begun only then.
var errNotAtHand = errors.New("the database must be asked")

// resolve does the work of Resolve; a nil tx is one that is begun only if needed.
func (s *System) resolve(ctx context.Context, tx *sql.Tx, h head, args json.RawMessage) (resolved, error) {
	e := s.expander(ctx, tx, h.session)
	out, by, err := resolve(e, args, func(text string) (provenance.Authors, error) { return s.copied(tx, h, text) })
	return resolved{out, by, e.names, h.heard(), e.hosts.And(h.hostsHeard().List()...)}, err
}

func resolve(e *expander, args json.RawMessage, copied func(string) (provenance.Authors, error)) (
	json.RawMessage, map[string]provenance.Authors, error,
) {
	by := map[string]provenance.Authors{}
	out, fields, err := rewriteStrings(args, func(at place, in string) ([]byte, bool, error) {
		if !strings.Contains(in, opening) {
			a, err := copied(in)
			by[at.field] |= a | provenance.ByModel
			return nil, false, err
		}
		text, from, err := e.expand(make([]byte, 0, len(in)), in, nil)
		if err != nil {
			return nil, false, err
		}
		if err := e.room(expandedFactor * quotedLength(text)); err != nil {
			return nil, false, err
		}
		a, err := copied(string(text))
		if by[at.field] |= a | from; !at.whole || !oneReference(in) {
			by[at.field] |= provenance.ByModel
		}
		return text, true, err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, field := range fields { // numbers and flags are the model's too
		if by[field] == 0 {
			by[field] = provenance.ByModel
		}
	}
	return out, by, nil
}

// expandedFactor is how many bytes of memory one byte of a value takes that a reference brings in: one while it is
// compared, two while the arguments grow, and one in the result.
const expandedFactor = 4

// oneReference reports whether a text is one whole reference and nothing else. The model then chose the value but wrote
// none of it. A model that joins values, or cuts them (see expander.reference), is an author of the result.
func oneReference(in string) bool {
	ref, ok := nextReference(in, 0)
	return ok && ref.start == 0 && ref.end == len(in)
}

func (s *System) expander(ctx context.Context, tx *sql.Tx, session string) *expander {
	return &expander{
		limit:  s.o.MaxExpanded,
		take:   func(bytes int) error { return budget.Of(ctx).Take(int64(bytes)) },
		values: map[string]*value{},
		load: func(name string) (*value, error) {
			if tx == nil {
				return nil, errNotAtHand
			}
			var size int64
			err := tx.QueryRow(`SELECT `+sizeOf+` FROM vars WHERE session = $1 AND name = $2`, session, name).
				Scan(&size)
			if errors.Is(err, sql.ErrNoRows) {
				return nil, nil
			}
			if err == nil { // what comes in is copied at least once
				err = takeValue(ctx, name, 2*size)
			}
			if err != nil {
				return nil, err
			}
			r, err := found(tx.QueryRow(s.selectVar(), session, name))
			if err != nil || r == nil {
				return nil, err
			}
			purpose := (r.typ == TypeModel || r.typ == TypeUser) && r.authored&^provenance.OnPurpose == 0
			return &value{
				text:    text{s: r.value, length: r.length},
				nested:  purpose || s.o.Nested == NestedAll,
				origins: r.origins, hosts: r.hosts,
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
	rows, err := tx.Query(listNames, session, namesShown, 0)
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

// visitAll counts one visit of each variable. A variable that was deleted meanwhile is no error.
func (s *System) visitAll(ctx context.Context, session string, names []string) error {
	return s.write(ctx, session, func(*sql.Tx, *head) error {
		now := s.now()
		for _, name := range names {
			err := s.exec(`UPDATE vars SET visited = $3, refs = refs + 1 WHERE session = $1 AND name = $2`, session,
				name, now)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
