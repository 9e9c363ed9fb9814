package team

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

//go:embed migrations
var migrations embed.FS

func schema() store.Schema { return store.EmbeddedBoth("team", migrations) }

// Store is the spaces of all trees. It is safe for concurrent use.
type Store struct {
	db    *store.DB
	teams *store.Cache[[]Team] // the active teams of each space: every message asks for them
}

// New returns the spaces in db, which was opened with the schema of [Definition].
func New(db *store.DB) *Store { return &Store{db, store.NewCache(db, teamsBytes)} }

// Place is an agent in its space.
type Place struct {
	Space   string
	Account string
	Session string
	Agent   string // "self" at the top of a tree without a name

	Operator bool // acts for the agent: a person may change what the agent may not
}

// self is the name of an agent at the top of a tree that has none.
const self = "self"

// PlaceOf returns the place of the agent of a session.
func PlaceOf(s tool.Session) Place {
	p := Place{Space: s.Root(), Account: s.Account, Session: s.ID, Agent: s.Agent}
	if p.Agent == "" {
		p.Agent = self
	}
	return p
}

// view is one transaction.
type view struct {
	store.Tx
	now int64
}

func (s *Store) read(ctx context.Context, f func(view) error) error {
	return s.db.Read(ctx, func(tx *sql.Tx) error { return f(view{Tx: s.db.Reading(tx)}) })
}

func (s *Store) write(ctx context.Context, f func(view) error) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		return f(view{s.db.Writing(tx), s.db.Now().UnixMilli()})
	})
}

// next returns the next number of a kind in a space.
func (v view) next(space, kind string) (int64, error) {
	var n int64
	err := v.Row(`INSERT INTO team_counters (space, kind, last) VALUES ($1, $2, 1)
		ON CONFLICT (space, kind) DO UPDATE SET last = team_counters.last + 1 RETURNING last`, space, kind).Scan(&n)
	return n, err
}

// kept holds the fields of a task that no query uses.
type kept struct {
	Subject     string            `json:"subject"`
	Description string            `json:"description,omitempty"`
	Output      string            `json:"output,omitempty"`
	BlockedBy   []string          `json:"blocked_by,omitempty"`
	Blocks      []string          `json:"blocks,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

func (t Task) data() (string, error) {
	b, err := json.Marshal(kept{t.Subject, t.Description, t.Output, t.BlockedBy, t.Blocks, t.Metadata})
	return string(b), err
}

// Reserve returns the id for a task that will be made later.
func (s *Store) Reserve(ctx context.Context, p Place) (id string, err error) {
	err = s.write(ctx, func(v view) error {
		n, err := v.next(p.Space, "task")
		id = fmt.Sprintf("task_%d", n)
		return err
	})
	return id, err
}

// Create makes a task. Without an id it gets the next one of its space.
func (s *Store) Create(ctx context.Context, p Place, t Task, by provenance.Authors) (Task, error) {
	if err := t.check(); err != nil {
		return t, err
	}
	err := s.write(ctx, func(v view) (err error) {
		var n int
		if err := v.Row(`SELECT count(*) FROM team_tasks WHERE space = $1`, p.Space).Scan(&n); err != nil {
			return err
		}
		if n >= maxTasks {
			return &tool.Error{
				Code: "too_many_tasks", Msg: fmt.Sprintf("there are %d tasks, %d at most", n, maxTasks),
				Hint: "they go with the session at the top; make one task of several",
			}
		}
		if t.ID == "" {
			if t.number, err = v.next(p.Space, "task"); err != nil {
				return err
			}
			t.ID = fmt.Sprintf("task_%d", t.number)
		} else if t.number, err = numberOf("task_", t.ID); err != nil {
			return err
		}
		t.CreatedAt = time.UnixMilli(v.now).UTC()
		t.UpdatedAt, t.authors = t.CreatedAt, by
		data, err := t.data()
		if err != nil {
			return err
		}
		return v.Run(`INSERT INTO team_tasks (space, number, status, owner, created, updated, authors, data)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			p.Space, t.number, string(t.Status), t.Owner, v.now, v.now, int64(by), data)
	})
	return t, err
}

const taskColumns = `number, status, owner, created, updated, authors, data`

func scanTask(row interface{ Scan(...any) error }) (Task, error) {
	var t Task
	var created, updated, authors int64
	var data string
	if err := row.Scan(&t.number, &t.Status, &t.Owner, &created, &updated, &authors, &data); err != nil {
		return t, err
	}
	var k kept
	if err := json.Unmarshal([]byte(data), &k); err != nil {
		return t, fmt.Errorf("decode task %d: %w", t.number, err)
	}
	t.ID, t.Subject, t.Description, t.Output = fmt.Sprintf("task_%d", t.number), k.Subject, k.Description, k.Output
	t.BlockedBy, t.Blocks, t.Metadata, t.authors = k.BlockedBy, k.Blocks, k.Metadata, provenance.Authors(authors)
	t.CreatedAt, t.UpdatedAt = time.UnixMilli(created).UTC(), time.UnixMilli(updated).UTC()
	return t, nil
}

func (v view) task(space, id string) (Task, error) {
	n, err := numberOf("task_", id)
	if err != nil {
		return Task{}, taskNotFound(id)
	}
	t, err := scanTask(v.Row(`SELECT `+taskColumns+` FROM team_tasks WHERE space = $1 AND number = $2`, space, n))
	if errors.Is(err, sql.ErrNoRows) {
		err = taskNotFound(id)
	}
	return t, err
}

// Get returns one task.
func (s *Store) Get(ctx context.Context, p Place, id string) (t Task, err error) {
	err = s.read(ctx, func(v view) error {
		t, err = v.task(p.Space, id)
		return err
	})
	return t, err
}

// Filter chooses tasks; "" is any.
type Filter struct {
	Status Status
	Owner  string
	Limit  int // 0 is all
	Offset int
}

// List returns tasks by number, and how many there are without limit and offset.
func (s *Store) List(ctx context.Context, p Place, f Filter) (all []Task, total int, err error) {
	const where = ` FROM team_tasks WHERE space = $1 AND ($2 = '' OR status = $2) AND ($3 = '' OR owner = $3)`
	if f.Limit <= 0 {
		f.Limit = maxTasks
	}
	all = []Task{}
	err = s.read(ctx, func(v view) error {
		if err := v.Row(`SELECT count(*)`+where, p.Space, string(f.Status), f.Owner).Scan(&total); err != nil {
			return err
		}
		return v.Each(func(rows *sql.Rows) error {
			t, err := scanTask(rows)
			all = append(all, t)
			return err
		}, `SELECT `+taskColumns+where+` ORDER BY number LIMIT $4 OFFSET $5`,
			p.Space, string(f.Status), f.Owner, f.Limit, f.Offset)
	})
	return all, total, err
}

// Update changes a task, all or nothing, and returns it as it was and as it is.
func (s *Store) Update(
	ctx context.Context, p Place, id string, c Change, by provenance.Authors,
) (was, is Task, err error) {
	err = s.write(ctx, func(v view) error {
		if was, err = v.task(p.Space, id); err != nil {
			return err
		}
		is = was
		if err := c.apply(&is); err != nil {
			return err
		}
		is.UpdatedAt, is.authors = time.UnixMilli(v.now).UTC(), was.authors|by
		data, err := is.data()
		if err != nil {
			return err
		}
		err = v.Run(`UPDATE team_tasks SET status = $1, owner = $2, updated = $3, authors = $4, data = $5
			WHERE space = $6 AND number = $7`,
			string(is.Status), is.Owner, v.now, int64(is.authors), data, p.Space, is.number)
		if err == nil && is.Status.Final() {
			err = s.db.Notify(v.Tx.Tx, ended)
		}
		return err
	})
	return was, is, err
}

// ended is the topic on which daemons tell each other which tasks have become final or were deleted.
const ended = "tasks"

// Await returns a task when its status is final, or as it is when ctx ends.
func (s *Store) Await(ctx context.Context, p Place, id string) (t Task, err error) {
	for range s.db.Changes(ctx, ended) {
		t, err = s.Get(context.WithoutCancel(ctx), p, id)
		if err != nil || t.Status.Final() {
			return t, err
		}
	}
	return t, err
}

// drop deletes a space, and ends the waiting of everybody who waits for a task of it.
func (s *Store) drop(tx *sql.Tx, space string) error {
	s.teams.Drop(space)
	for _, table := range []string{"team_counters", "team_tasks", "team_teams", "team_mailboxes", "team_mail"} {
		if _, err := tx.Exec(`DELETE FROM `+table+` WHERE space = $1`, space); err != nil {
			return err
		}
	}
	return s.db.Notify(tx, ended)
}
