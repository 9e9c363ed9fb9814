package team

import (
	"cmp"
	"context"
	"database/sql"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Definition is tasks, teams and mailboxes as a part of the daemon.
func Definition() part.Definition {
	return part.Definition{
		Name:   "team",
		Schema: schema(),
		Open: func(_ context.Context, h part.Host) (part.Part, error) {
			return (&feature{host: h, store: New(h.DB)}).part(), nil
		},
		Describe: func(part.Config) part.Part { return (&feature{}).part() },
	}
}

// feature is tasks, teams and mailboxes in a daemon.
type feature struct {
	host  part.Host
	store *Store
}

func (f *feature) part() part.Part {
	return part.Part{
		Groups: []catalog.Group{f.tasks(), f.teams()}, Routes: f.routes(),
		Teams:   f,
		Deleted: func(tx *sql.Tx, session string) error { return f.store.drop(tx, session) },
	}
}

// placeOf returns the place of the agent of a session that a call is made in.
func (f *feature) placeOf(ctx context.Context, account, session string) (Place, tool.Session, error) {
	s, err := f.host.Sessions.Session(ctx, account, session)
	return PlaceOf(s), s, err
}

// create makes a task unless a hook blocks it.
func (f *feature) create(ctx context.Context, s tool.Session, t Task, by provenance.Authors) (Task, error) {
	if err := t.check(); err != nil {
		return t, err
	}
	p := PlaceOf(s)
	if f.host.Hooked(part.TaskCreated) {
		id, err := f.store.Reserve(ctx, p)
		if err != nil {
			return t, err
		}
		t.ID = id
		h := part.Happening{Event: part.TaskCreated, Session: s, Task: t.ID, Subject: t.Subject}
		said, err := f.host.Fire(ctx, h)
		if err != nil {
			return t, err
		}
		if said.Block {
			return t, &tool.Error{Code: "hook_blocked", Msg: cmp.Or(said.Reason, "the task was blocked by a hook")}
		}
	}
	made, err := f.store.Create(ctx, p, t, by)
	if err != nil {
		return t, err
	}
	f.tell(events.TaskCreated, p, made)
	f.completed(ctx, s, Task{}, made)
	return made, nil
}

// update changes a task, and tells of it.
func (f *feature) update(
	ctx context.Context, s tool.Session, id string, c Change, by provenance.Authors,
) (Task, error) {
	p := PlaceOf(s)
	was, is, err := f.store.Update(ctx, p, id, c, by)
	if err != nil {
		return is, err
	}
	f.tell(events.TaskUpdated, p, is)
	f.completed(ctx, s, was, is)
	return is, nil
}

func (f *feature) tell(what events.Type, p Place, t Task) {
	f.host.Events.Publish(events.Event{
		Type: what, Account: p.Account, Session: p.Session, Task: t.ID, Status: string(t.Status),
	})
}

// completed runs the hooks of taskCompleted when a task has become completed. The change is stored already, so a hook
// cannot block it.
func (f *feature) completed(ctx context.Context, s tool.Session, was, is Task) {
	if was.Status == Completed || is.Status != Completed || !f.host.Hooked(part.TaskCompleted) {
		return
	}
	h := part.Happening{Event: part.TaskCompleted, Session: s, Task: is.ID, Subject: is.Subject}
	if _, err := f.host.Fire(context.WithoutCancel(ctx), h); err != nil {
		f.host.Log.Warn("hooks were not told of a task", "task", is.ID, "session", s.ID, "error", err)
	}
}
