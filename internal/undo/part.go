package undo

import (
	"context"
	"database/sql"
	"embed"
	"time"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

//go:embed migrations
var migrations embed.FS

// Definition is undo as a part of the daemon.
func Definition() part.Definition {
	return part.Definition{
		Name:     "undo",
		Schema:   store.Embedded("undo", migrations),
		Config:   func() part.Config { return defaults() },
		Open:     open,
		Deferred: []string{Name},
		Doctor:   doctor,
		Describe: func(part.Config) part.Part { return described(handlers{}) },
	}
}

// doctor reports the protection that the operator's configuration gives up.
func doctor(_ context.Context, c part.Config) []part.Finding {
	if c.(*Config).Mode != "off" {
		return nil
	}
	return []part.Finding{{
		What: "undo", Why: "undo.mode is off: what calls change cannot be undone, and rules about changes " +
			"(input.changes) judge nothing",
	}}
}

// described returns the part as the documents describe it.
func described(h handlers) part.Part {
	return part.Part{Groups: []catalog.Group{group(h.j)}, Routes: h.routes()}
}

// purgeEvery is the interval at which calls that are too old are removed.
const purgeEvery = time.Hour

func open(ctx context.Context, h part.Host) (part.Part, error) {
	j, err := openJournal(ctx, h.DB, h.Dir, h.Free, *h.Config.(*Config), h.Log)
	if err != nil {
		return part.Part{}, err
	}
	if h.Redact != nil {
		j.mask = h.Redact
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.purgeLoop(ctx)
	}()
	p := described(handlers{j, h})
	p.Journal = j
	p.Deleted = j.deleted
	p.Forget = func(_ context.Context, s tool.Session) error {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.notices, s.ID)
		return nil
	}
	p.Reload = func(_ context.Context, c part.Config) { j.setConfig(*c.(*Config)) }
	p.Metrics = []part.Gauge{{
		Name: "undo_bytes", Help: "Bytes of old content that are kept for undo.",
		Value: func() float64 { return float64(j.bytes()) },
	}}
	p.Status = func() any { return status{j.settings().Mode, j.bytes(), j.settings().KeepBytes} }
	p.Close = func() error {
		stop()
		<-done
		j.snapshots.close()
		j.marks.close()
		return nil
	}
	return p, nil
}

// deleted takes the calls of a session away from its name.
func (j *journal) deleted(tx *sql.Tx, session string) error {
	j.marks.orphan(session)
	_, err := tx.Exec(`UPDATE undo_calls SET session = '' WHERE session = $1`, session)
	if err == nil {
		_, err = tx.Exec(`DELETE FROM undo_notices WHERE session = $1`, session)
	}
	return err
}

// status returns the fields of the part in the answer of GET /status.
type status struct {
	Mode  string `json:"mode"`
	Bytes int64  `json:"bytes"`
	Most  int64  `json:"keep_bytes"`
}

func (j *journal) bytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

// purgeLoop removes calls that are too old, until ctx ends.
func (j *journal) purgeLoop(ctx context.Context) {
	tick := time.NewTicker(purgeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		j.snapshots.rest(j.now().Add(-2 * purgeEvery))
		if err := j.purgeOld(ctx); err != nil && ctx.Err() == nil {
			j.log.Error("what is too old to be undone is not removed", "error", err)
		}
	}
}

// tell adds notices to an answer, once: what the model must know of undos by others. The answer to such an undo
// itself gets none, because no model reads it.
func (j *journal) tell(ctx context.Context, c *tool.Call) {
	if _, byRoute := ctx.Value(askedKey{}).(asked); byRoute {
		return
	}
	j.mu.Lock()
	told := j.notices[c.Session.ID]
	delete(j.notices, c.Session.ID)
	j.mu.Unlock()
	if told == nil {
		return
	}
	c.Result.SystemMessages = append(c.Result.SystemMessages, told...)
	err := j.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM undo_notices WHERE session = $1`, c.Session.ID)
		return err
	})
	if err != nil {
		j.log.Error("what a model was told of an undo is told again after a restart", "error", err)
	}
}

// notice is what the model of a session is told with its next call.
func (j *journal) notice(ctx context.Context, session, text string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO undo_notices (session, text) VALUES ($1, $2)`, session, text)
		return err
	})
	if err == nil {
		j.notices[session] = append(j.notices[session], text)
	}
	return err
}
