package approvals

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
)

// Each daemon that shares a database writes every beatEvery that it is alive. If one has not done so for deadAfter, any
// other daemon ends its questions.
const (
	beatEvery = 5 * time.Second
	deadAfter = 30 * time.Second
)

// changes is the topic on which daemons tell each other about questions and answers.
const changes = "approvals"

const reasonDied = "the daemon that asked has gone"

// fleet is what a queue knows of the other daemons. What is not atomic is used by Follow alone.
type fleet struct {
	watched   atomic.Bool // somebody is shown questions at another daemon
	following atomic.Bool // waiting is read

	beaten  time.Time       // when this one last said that it is there
	steady  time.Time       // since when it has done so without a pause
	told    bool            // whether it said that somebody watches
	waiting map[string]bool // questions of others that its readers know of; nil: not read yet
}

// beat writes that this daemon is alive.
func (f *fleet) beat(tx *sql.Tx, db *store.DB, now time.Time, watched bool) error {
	if !db.Shared() {
		return nil
	}
	_, err := tx.Exec(`INSERT INTO approval_daemons (id, beat, watched) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET beat = $2, watched = $3`, db.Daemon(), now.UnixMilli(), watched)
	if now.Sub(f.beaten) > 3*beatEvery {
		f.steady = now
	}
	f.beaten, f.told = now, watched
	return err
}

// Follow watches the questions of all daemons that share the database, until ctx ends. It gives answers
// from other daemons to the calls that wait here, reports the questions of other daemons, and ends the
// questions of daemons that died. If no other daemon shares the database, it returns at once.
func (q *Queue) Follow(ctx context.Context, failed func(error)) error {
	if !q.db.Shared() {
		return nil
	}
	for range q.db.Changes(ctx, changes) {
		if err := q.look(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
	return nil
}

// Own reports whether a question is of this daemon.
func (q *Queue) Own(i Item) bool { return i.Daemon == q.db.Daemon() }

// look is one round of Follow, which alone calls it. It gives answers that other daemons received to the callers that
// wait here, and tells subscribers about the questions of others. Every beatEvery, or when the first subscriber came or
// the last one left, it writes that this daemon is alive, and ends the questions of daemons that are not. After an
// error it delivers the other answers and leaves the rest to the next round.
func (q *Queue) look(ctx context.Context) error {
	answered, err := q.ids(ctx, `SELECT id FROM approval_questions WHERE daemon = $1 AND seen = 0`)
	for _, id := range append(answered, q.doubtful()...) {
		err = errors.Join(err, q.deliverNow(ctx, id))
	}
	if err == nil {
		err = q.tell(ctx)
	}
	watched := q.watchers.any()
	if now := q.db.Now(); err == nil && (now.Sub(q.fleet.beaten) >= beatEvery || watched != q.fleet.told) {
		err = q.live(ctx, watched)
	}
	return err
}

// ids returns the questions that a query finds for this daemon.
func (q *Queue) ids(ctx context.Context, query string) (ids []string, err error) {
	err = q.db.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, query, q.db.Daemon())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	})
	return ids, err
}

// doubtful returns the questions whose answer may be stored although this daemon saw an error.
func (q *Queue) doubtful() (ids []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, w := range q.waiting {
		if w.doubtful {
			ids = append(ids, id)
		}
	}
	return ids
}

func (q *Queue) deliverNow(ctx context.Context, id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.deliver(ctx, id)
}

// deliver gives an answer that another daemon received to the callers that wait for it here. If none waits, the answer
// serves one later call. The caller holds mu.
func (q *Queue) deliver(ctx context.Context, id string) error {
	w := q.waiting[id]
	item, err := q.load(ctx, id)
	if err != nil {
		return err
	}
	if item.Status == StatusPending {
		if w != nil {
			w.doubtful = false
		}
		return nil
	}
	uses := w == nil || len(w.callers) == 0
	if item.Status != StatusApproved && item.Status != StatusRefused {
		uses = false
	}
	var text string
	var decided int64
	e := Event{Kind: EventDecided, Item: item, By: item.DecidedBy}
	err = q.recorded(ctx, e, func(tx *sql.Tx) error {
		return tx.QueryRow(`UPDATE approval_questions SET seen = 1, uses = $2 WHERE id = $1 AND seen = 0
			RETURNING answer, decided_at`, id, uses).Scan(&text, &decided)
	})
	if errors.Is(err, sql.ErrNoRows) { // it was delivered before
		if w == nil {
			return nil
		}
		// Here the database went away when it had stored that, and before it said so. Nobody has joined since.
		err = q.db.Read(ctx, func(tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, `SELECT answer, decided_at FROM approval_questions WHERE id = $1`, id).
				Scan(&text, &decided)
		})
	}
	if err != nil {
		if w != nil {
			w.doubtful = true
		}
		return err
	}
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return fmt.Errorf("decode the answer of %q: %w", id, err)
	}
	if w != nil {
		q.release(w, a.approval(id, fromMillis(decided)))
	}
	q.feed.send(e)
	return nil
}

// decideElsewhere stores the answer to a question of another daemon, and notifies that daemon.
func (q *Queue) decideElsewhere(ctx context.Context, id string, d Decision) (Item, error) {
	item, err := q.load(ctx, id)
	if err != nil {
		return Item{}, err
	}
	if item.Status != StatusPending {
		return Item{}, q.gone(ctx, id)
	}
	now := q.db.Now()
	if !item.ExpiresAt.After(now) {
		return Item{}, expired(id)
	}
	a, err := d.answer(item)
	if err != nil {
		return Item{}, err
	}
	item.apply(a, now)
	err = q.recorded(ctx, Event{Kind: EventDecided, Item: item, By: a.By}, func(tx *sql.Tx) error {
		if err := updateAnswer(tx, id, a, now, q.opts.Reuse, 0, item.Daemon == q.db.Daemon()); err != nil {
			return err
		}
		return errors.Join(q.grant(tx, item, now), q.db.Notify(tx, changes))
	})
	if errors.Is(err, errState) {
		return Item{}, q.gone(ctx, id)
	}
	return item, err
}

// cancelElsewhere ends the questions that a session has at other daemons.
func (q *Queue) cancelElsewhere(ctx context.Context, session, reason string) error {
	return q.endElsewhere(ctx, answer{Status: StatusCancelled, Code: CodeCancelled, Reason: reason},
		`session_id = $1 AND daemon <> $2`, session, q.db.Daemon())
}

// endElsewhere ends questions of other daemons without a person.
func (q *Queue) endElsewhere(ctx context.Context, a answer, where string, args ...any) error {
	return q.db.Write(ctx, func(tx *sql.Tx) error { return q.endAll(ctx, tx, a, where, args...) })
}

func (q *Queue) endAll(ctx context.Context, tx *sql.Tx, a answer, where string, args ...any) error {
	rows, err := tx.QueryContext(ctx, `SELECT id FROM approval_questions WHERE status = 'pending' AND `+where, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil || len(ids) == 0 {
		return err
	}
	now := q.db.Now()
	for _, id := range ids {
		item, err := q.read(tx, id)
		if err != nil {
			return err
		}
		item.apply(a, now)
		if err := updateAnswer(tx, id, a, now, q.opts.Reuse, 0, false); err != nil {
			return err
		}
		if err := q.opts.Record(ctx, Event{Kind: EventDecided, Item: item}); err != nil {
			return fmt.Errorf("record the end of a question: %w", err)
		}
	}
	return q.db.Notify(tx, changes)
}

// boundElsewhere counts the questions of all daemons.
func (q *Queue) boundElsewhere(tx *sql.Tx, session string) error {
	if !q.db.Shared() {
		return nil
	}
	var ofSession, all int
	err := tx.QueryRow(`SELECT count(*) FILTER (WHERE session_id = $1), count(*) FROM approval_questions
		WHERE status = 'pending'`, session).Scan(&ofSession, &all)
	if err != nil {
		return err
	}
	return q.bound(ofSession, all)
}

// tell sends the subscribers of this daemon the questions and answers of other daemons.
func (q *Queue) tell(ctx context.Context) error {
	ids, err := q.ids(ctx, `SELECT id FROM approval_questions WHERE status = 'pending' AND daemon <> $1
		ORDER BY created_at, id`)
	if err != nil {
		return err
	}
	before := q.fleet.waiting
	now := make(map[string]bool, len(ids))
	for _, id := range ids {
		now[id] = true
	}
	q.fleet.waiting = now
	q.fleet.following.Store(true)
	if before == nil { // readers that came before list what waits
		return nil
	}
	for id := range before {
		if !now[id] {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		if before[id] && now[id] {
			continue
		}
		item, err := q.load(ctx, id)
		if err != nil {
			return err
		}
		switch {
		case item.Status == StatusPending:
			q.feed.send(Event{Kind: EventAsked, Item: item})
		case before[id]:
			q.feed.send(Event{Kind: EventDecided, Item: item, By: item.DecidedBy})
		}
	}
	return nil
}

// live writes that this daemon is alive, and ends the questions of daemons that are not. It does this only after it has
// been alive itself for deadAfter: while the database was away, no daemon could write.
func (q *Queue) live(ctx context.Context, watched bool) error {
	return q.db.Write(ctx, func(tx *sql.Tx) error {
		now := q.db.Now()
		changed := watched != q.fleet.told
		if err := q.fleet.beat(tx, q.db, now, watched); err != nil {
			return err
		}
		alive := now.Add(-deadAfter).UnixMilli()
		var others int
		if err := tx.QueryRow(`SELECT count(*) FROM approval_daemons WHERE watched = 1 AND beat >= $1 AND id <> $2`,
			alive, q.db.Daemon()).Scan(&others); err != nil {
			return err
		}
		q.fleet.watched.Store(others > 0)
		// These could not be ended while the database was away.
		over := now.Add(-time.Minute).UnixMilli()
		if err := q.endAll(ctx, tx, timedOut, `daemon = $1 AND expires_at < $2`, q.db.Daemon(), over); err != nil {
			return err
		}
		if now.Sub(q.fleet.steady) > deadAfter+beatEvery {
			died := answer{Status: StatusExpired, Code: CodeTimedOut, Reason: reasonDied}
			if err := q.endAll(ctx, tx, died, `daemon NOT IN (SELECT id FROM approval_daemons WHERE beat >= $1)`,
				alive); err != nil {
				return err
			}
		}
		if changed {
			return q.db.Notify(tx, changes)
		}
		return nil
	})
}

// Alive returns the daemons that share db and have said lately that they are there.
func Alive(ctx context.Context, db *store.DB) (ids []string, err error) {
	err = db.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT id FROM approval_daemons
			WHERE beat >= (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1 ORDER BY id`,
			deadAfter.Milliseconds())
		if err != nil {
			return err
		}
		defer rows.Close()
		ids = nil
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	})
	return ids, err
}
