package vars

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Change is what is written of a variable. Nil fields are not given.
type Change struct {
	Value *string
	Type  *Type
	Desc  *string
	Tags  *[]string
	Keep  *bool
}

// record is a row of vars.
type record struct {
	name                      string
	typ                       Type
	keep                      bool
	created, updated, visited int64
	refs, length              int
	authored, origins         provenance.Authors
	hosts                     provenance.Hosts
	tags, desc                string
	value                     string
	large                     int64 // id of the value in var_large; 0 is a value in the row itself
}

// rowBytes is the largest value that is in the row of its variable. A visit writes that row again.
const rowBytes = 64 << 10

// valueOf and sizeOf are the value of a variable and its bytes, in a query of vars.
const (
	valueOf = `coalesce((SELECT l.value FROM var_large l WHERE l.id = large), value)`
	sizeOf  = `length(value) + coalesce((SELECT length(l.value) FROM var_large l WHERE l.id = large), 0)`
)

// Put adds a variable or replaces one: only its creation time and, where the
// change does not say, keep remain (V-09). by is who wrote the value. It reports
// whether the variable is new.
func (s *System) Put(ctx context.Context, session, name string, c Change, by tool.Origin) (Var, bool, error) {
	if c.Value == nil || (c.Type != nil && !c.Type.valid()) {
		return Var{}, false, &tool.Error{
			Code: "validation_error", Msg: "a variable needs a value and one of the six types",
			Hint: "send value as text, type USER_ADD",
		}
	}
	return s.edit(ctx, session, name, by, tool.Origins{}, func(old *record) (record, error) {
		r := record{typ: TypeUser}
		if old != nil {
			r.created, r.keep, r.refs = old.created, old.keep, old.refs
		}
		err := c.apply(&r)
		return r, err
	})
}

// Update changes the given fields of a variable. A missing one is created if both
// value and type are given (V-10). It reports whether the variable is new.
func (s *System) Update(ctx context.Context, session, name string, c Change, by tool.Origin) (Var, bool, error) {
	return s.edit(ctx, session, name, by, tool.Origins{}, func(old *record) (record, error) {
		var r record
		switch {
		case old != nil:
			r = *old
		case c.Value == nil || c.Type == nil:
			return r, &tool.Error{
				Code: "variable_not_found", Msg: "Cannot create variable without value and type",
				Hint: "add it with a value first",
			}
		}
		err := c.apply(&r)
		return r, err
	})
}

// apply writes the given fields. It checks tags here, because stored ones are one text, in which a tag with a line
// break is two. A change that gives no tags may leave those of an older daemon, which had no bounds.
func (c Change) apply(r *record) error {
	if c.Value != nil {
		r.value = *c.Value
	}
	if c.Type != nil {
		r.typ = *c.Type
	}
	if c.Desc != nil {
		r.desc = *c.Desc
	}
	if c.Tags != nil {
		if err := checkTags(*c.Tags); err != nil {
			return err
		}
		r.tags = joinTags(*c.Tags)
	}
	if c.Keep != nil {
		r.keep = *c.Keep
	}
	return nil
}

// edit changes a variable, or creates it, and stores it. from lists the origins of the values that references brought
// into the new value.
func (s *System) edit(ctx context.Context, session, name string, by tool.Origin, from tool.Origins,
	change func(old *record) (record, error),
) (Var, bool, error) {
	if err := checkName(name); err != nil {
		return Var{}, false, err
	}
	var v Var
	var created bool
	err := s.write(ctx, session, func(tx *sql.Tx, h *head) error {
		old, err := found(s.row(s.selectVar(), session, name))
		if err != nil {
			return err
		}
		if old != nil && old.typ == TypeRule {
			return protected(name)
		}
		r, err := change(old)
		if err != nil {
			return err
		}
		r.name = name
		if err := s.check(r, old); err != nil {
			return err
		}
		if old == nil || r.value != old.value || r.origins == 0 { // 0: it replaces, also by the same text
			if r.authored, r.origins, err = s.authorsOf(tx, *h, r.value, by, from); err != nil {
				return err
			}
			r.hosts = h.hostsOf(r.origins, from.Hosts)
		}
		created = old == nil
		r, err = s.store(h, r, old)
		v = r.public()
		return err
	})
	return v, created, err
}

func (s *System) check(r record, old *record) error {
	bad := func(format string, args ...any) error {
		return &tool.Error{Code: "validation_error", Msg: fmt.Sprintf(format, args...), Hint: "see docs/variables.md"}
	}
	switch {
	case !r.typ.valid():
		return bad("%q is not a type of variables", r.typ)
	case r.typ == TypeRule:
		return bad("only the registration of skill rules makes variables of type RULE")
	case !utf8.ValidString(r.value), !utf8.ValidString(r.desc):
		return bad("the value or description of %q is not valid UTF-8", r.name)
	case len(r.desc) > maxDesc && (old == nil || old.desc != r.desc):
		return bad("the description of %q has %d bytes, %d at most", r.name, len(r.desc), maxDesc)
	case len(r.value) > s.o.MaxValue:
		return &tool.Error{
			Code: "value_too_large",
			Msg:  fmt.Sprintf("the value of %q has %d bytes, more than %d", r.name, len(r.value), s.o.MaxValue),
			Hint: "keep large data in a file",
		}
	}
	return nil
}

func protected(name string) error {
	return &tool.Error{
		Code: "variable_protected",
		Msg:  fmt.Sprintf("variable '%s' is a rule and cannot be changed or removed", name),
		Hint: "write to another name",
	}
}

// authorsOf returns the authors of a value: its writer, the authors of values that references brought in, and the
// authors of outside text that it repeats. The second set adds the authors of what its writer had seen before. A person
// and a rule answer for their own words, so nothing is added for them.
func (s *System) authorsOf(tx *sql.Tx, h head, value string, by tool.Origin, from tool.Origins) (
	authored, origins provenance.Authors, err error,
) {
	authored = provenance.Of(by)
	for _, origins := range from.Args {
		authored |= provenance.Of(origins...)
	}
	if authored&^(provenance.ByPerson|provenance.ByRule) == 0 {
		return authored, authored, nil
	}
	copied, err := s.copied(tx, h, value)
	if err != nil {
		return 0, 0, err
	}
	authored |= copied
	return authored, authored | h.heard(), nil
}

// store writes a row in place of old, which is nil for a new one. It
// returns the row with the times it got.
func (s *System) store(h *head, r record, old *record) (record, error) {
	err := s.o.Room(len(r.value))
	if err != nil {
		return r, err
	}
	now := s.now()
	if r.created == 0 {
		r.created = now
	}
	r.updated, r.visited, r.length = now, now, utf8.RuneCountInString(r.value)
	if r, err = s.placed(r, old); err != nil {
		return r, err
	}
	h.stored = true
	if !r.keep {
		h.loose = 1
	}
	if old == nil && !r.keep && h.total >= s.o.Capacity {
		n, err := s.execCount(reuse, r.row(h.session)...)
		if err != nil || n == 1 {
			return r, err
		}
	}
	if old == nil {
		h.total++
	} else if old.keep {
		h.kept--
	}
	if r.keep {
		h.kept++
	}
	return r, s.exec(upsert, r.row(h.session)...)
}

// placed stores a large value in a row of its own, unless old has the same one.
func (s *System) placed(r record, old *record) (record, error) {
	r.large = 0
	switch {
	case len(r.value) <= rowBytes:
	case old != nil && old.large != 0 && old.value == r.value:
		r.large = old.large
	default:
		return r, s.row(`INSERT INTO var_large (value) VALUES ($1) RETURNING id`, []byte(r.value)).Scan(&r.large)
	}
	return r, nil
}

const upsert = `INSERT INTO vars (session, name, type, keep, created, updated, visited, refs,
		length, authored, origins, tags, descr, folded, value, hosts, large)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
	ON CONFLICT (session, name) DO UPDATE SET type = $3, keep = $4, created = $5, updated = $6, visited = $7, refs = $8,
		length = $9, authored = $10, origins = $11, tags = $12, descr = $13, folded = $14, value = $15,
		hosts = $16, large = $17`

// reuse overwrites the row of the variable that would be evicted with the new one. This writes half as many pages of
// the database as a deletion and an insertion. If both have the same time, evict decides: the new one may have to go.
const reuse = `UPDATE vars SET name = $2, type = $3, keep = $4, created = $5, updated = $6, visited = $7, refs = $8,
	length = $9, authored = $10, origins = $11, tags = $12, descr = $13, folded = $14, value = $15, hosts = $16,
	large = $17
	WHERE rowid = (SELECT rowid FROM vars WHERE session = $1 AND keep = 0 AND visited < $7
		ORDER BY visited, updated, created, name DESC LIMIT 1)`

// row lists the columns of the record, in the order that the insertion and the update take.
func (r *record) row(session string) []any {
	value := []byte(r.value)
	if r.large != 0 {
		value = []byte{}
	}
	return []any{
		session, r.name, r.typ, r.keep, r.created, r.updated, r.visited, r.refs, r.length, r.authored, r.origins,
		r.tags, r.desc, strings.ToLower(r.name + "\n" + r.desc), value, r.hosts, r.large,
	}
}

// evict makes room: the least recently visited go first (V-06). Kept ones never
// go, nor does the new one when it is the last that could (V-07).
func (s *System) evict(h *head) error {
	if !h.stored {
		return nil
	}
	n := min(h.total-s.o.Capacity, h.total-h.kept-h.loose)
	h.stored, h.loose = false, 0
	if n > 0 {
		gone, err := s.execCount(`DELETE FROM vars WHERE rowid IN (
			SELECT rowid FROM vars WHERE session = $1 AND keep = 0
			ORDER BY visited, updated, created, name DESC LIMIT $2)`, h.session, n)
		if err != nil {
			return err
		}
		h.total -= gone
	}
	if h.total > s.o.Capacity {
		s.o.Log.Warn("variables with keep fill the session", "session", h.session, "total", h.total, "capacity",
			s.o.Capacity)
	}
	return nil
}

const fields = `name, type, keep, created, updated, visited, refs, length, authored, origins, hosts, tags, descr, large`

// selectVar returns the query for a variable that does not count as a visit.
func (s *System) selectVar() string {
	return `SELECT ` + fields + `, ` + s.db.Text(valueOf) + ` FROM vars WHERE session = $1 AND name = $2`
}

// found returns the row, or nil if there is none.
func found(row scanner) (*record, error) {
	var r record
	err := row.Scan(append(r.targets(), &r.value)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &r, err
}

func (r *record) targets() []any {
	return []any{
		&r.name, &r.typ, &r.keep, &r.created, &r.updated, &r.visited, &r.refs, &r.length, &r.authored,
		&r.origins, &r.hosts, &r.tags, &r.desc, &r.large,
	}
}

func (r record) public() Var {
	at := func(ns int64) time.Time { return time.Unix(0, ns).UTC() }
	return Var{
		Name: r.name, Length: r.length, Desc: r.desc, Type: r.typ, Tags: splitTags(r.tags), Keep: r.keep,
		Created: at(r.created), Updated: at(r.updated), LastVisited: at(r.visited), ReferenceCount: r.refs,
		Origins: r.origins.List(), Hosts: r.hosts.List(), Value: &r.value,
	}
}
