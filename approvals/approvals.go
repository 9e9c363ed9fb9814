// Package approvals is the queue of questions to people.
//
// A call that needs a person is filed as an [Item]. It waits until somebody answers, the question
// times out, the caller leaves, or the daemon cancels it ([Queue.CancelSession], [Queue.Close]). A
// question is refused at once if nobody is there to answer, or if too many wait. Only a person's
// yes, or a [Grant] that a person gave before, approves. Every other end is a refusal, whose Code is
// one of the constants if no person gave it, or an error, as when the database or Options.Record
// failed. The caller must treat an error as a refusal.
//
//	q, err := approvals.New(ctx, db, approvals.Options{Approver: true}) // db has approvals.Schema
//	go q.Follow(ctx, func(err error) { log.Print(err) })         // needed if daemons share db
//	answer, err := q.Execution(ctx, call)                        // waits; call.Digest is set
//	item, err := q.Decide(ctx, id, approvals.Decision{Approved: true, By: "ann"}) // elsewhere
//	err = q.Close("")                                            // refuses the callers that wait; db stays open
//
// [Queue.Result], [Queue.Changes] and [Queue.Connection] ask about other things than the start of
// a call, and wait likewise. [Tools] has the tool by which a model asks a person. [Queue.List] has
// the ids that Decide takes. [Queue.Notify], with the Send of a [Webhook] or one of the caller, tells
// somebody outside that a question waits. [Queue.Part] has the routes, of operators alone.
//
// Several daemons may share the database of one queue. A question belongs to the daemon that asked
// it. Anybody may answer it, at any of these daemons, and only once. [Queue.Follow] brings such an
// answer to the call that waits.
//
// Guarantees:
//   - All equal calls that wait at one daemon share one question and its answer. The answer serves
//     only calls with the digest that was shown, or with that of the person's edit. If it is
//     remembered, it becomes a [Grant], which serves later calls with the same arguments.
//   - An acknowledged answer survives a kill of the daemon.
//   - A restart approves nothing. A question that waited waits again without a caller, or it has
//     expired. A question about a result or about changes is cancelled: its call is gone. Both ends
//     are recorded.
//   - If a person answers after the caller has left, the answer serves one equal call within
//     Options.Reuse. A question about a result or about changes, or of the daemon itself, ends when
//     its caller leaves.
//
// This package does not decide whether a call must be asked about, or whether the answer is enough.
// The caller judges the call again after the answer.
//
// A new kind of question is a [Type], a method beside [Queue.Execution] that files it, the reasons of
// its refusals in ask.go and decide.go, and its words in package review (Heading and Fields). A change
// of the tables is the next file of migrations, for SQLite, and the next of migrations/postgres.
package approvals

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Options of a Queue. With the zero value nobody can be asked, so everything is
// refused.
type Options struct {
	Approver bool // somebody is there to answer
	// Announced says that a webhook or a command tells people about questions, so a question reaches somebody even if
	// nobody watches the list; see [Queue.Connection].
	Announced bool

	Timeout       time.Duration // how long a question waits; 0 is 300 s
	Reuse         time.Duration // how long a late answer stays usable; 0 is 10 minutes
	MaxPerSession int           // waiting questions of one session; 0 is 100
	Max           int           // waiting questions in all; 0 is 20,000

	SessionGrant time.Duration // life of what is remembered for a session; 0 is 24 hours
	AlwaysGrant  time.Duration // life of what is remembered always; 0 is 90 days

	// Record is told of every question and every answer before it counts; its
	// error refuses the question or the answer. It must not call the Queue. nil
	// records nothing.
	Record func(context.Context, Event) error

	// Edited judges the arguments that a person gives to a call that waits, and returns
	// the digest that the answer binds; with "" the edited call is asked about anew. An
	// error refuses the answer, and the question waits on. It must not call the Queue. nil
	// returns "".
	Edited func(ctx context.Context, of Item, args json.RawMessage) (digest string, err error)
}

func (o Options) withDefaults() Options {
	o.Timeout = orDuration(o.Timeout, 300*time.Second)
	o.Reuse = orDuration(o.Reuse, 10*time.Minute)
	o.SessionGrant = orDuration(o.SessionGrant, 24*time.Hour)
	o.AlwaysGrant = orDuration(o.AlwaysGrant, 90*24*time.Hour)
	if o.MaxPerSession <= 0 {
		o.MaxPerSession = 100
	}
	if o.Max <= 0 {
		o.Max = 20_000
	}
	if o.Edited == nil {
		o.Edited = func(context.Context, Item, json.RawMessage) (string, error) { return "", nil }
	}
	if o.Record == nil {
		o.Record = func(context.Context, Event) error { return nil }
	}
	return o
}

func orDuration(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Queue holds the questions. It is safe for concurrent use.
type Queue struct {
	db     *store.DB
	opts   Options
	filing chan struct{} // places for those who write to the database before they wait

	// mu orders what changes a question, in memory and in the database. Listing
	// does not take it.
	mu      sync.Mutex
	waiting map[string]*waiting // by id: everything that is pending
	digests map[digestKey]*waiting
	session map[string]int // how many are pending, by session
	closed  string         // reason of Close
	pruned  time.Time      // when old answers were last deleted

	feed     feed
	watchers watchers
	fleet    fleet
}

// waiting is what memory holds of one pending question; the rest is in the
// database.
type waiting struct {
	id, session string
	key         digestKey
	expires     time.Time
	timer       *time.Timer          // ends the question when its time is up
	callers     []chan tool.Approval // each is buffered and receives once
	own         bool                 // of the daemon itself: nobody comes back for it
	doubtful    bool                 // an answer may be stored: the database went away while it said so
}

type digestKey struct {
	kind   Type
	digest string
}

//go:embed migrations/*.sql migrations/postgres/*.sql
var migrations embed.FS

// Schema returns the tables of this package.
func Schema() store.Schema { return store.EmbeddedBoth("approvals", migrations) }

// decidedKept is how long an answered question can still be listed. The audit
// keeps it for good. Older ones are deleted once in pruneEvery.
const (
	decidedKept = 24 * time.Hour
	pruneEvery  = time.Hour
)

// New opens the queue over a database that has [Schema]. Questions that waited
// when the daemon ended wait again, without a caller, until their time is up.
func New(ctx context.Context, db *store.DB, o Options) (*Queue, error) {
	q := &Queue{
		db: db, opts: o.withDefaults(), filing: make(chan struct{}, 4),
		waiting: map[string]*waiting{},
		digests: map[digestKey]*waiting{},
		session: map[string]int{},
		pruned:  db.Now(),
	}
	err := db.Write(ctx, func(tx *sql.Tx) error { return q.fleet.beat(tx, db, db.Now(), false) })
	if err != nil {
		return nil, err
	}
	if err := q.endStale(ctx); err != nil {
		return nil, err
	}
	var pending []*waiting
	err = db.Write(ctx, func(tx *sql.Tx) error {
		if err := prune(tx, db.Now()); err != nil {
			return err
		}
		var err error
		pending, err = loadPending(tx, db.Daemon())
		return err
	})
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	latest := db.Now().Add(q.opts.Timeout)
	for _, w := range pending {
		if w.expires.After(latest) { // the clock was set back
			w.expires = latest
		}
		q.add(w)
	}
	return q, nil
}

// endStale ends what cannot be answered after a restart: what is over time, and what died with its call.
func (q *Queue) endStale(ctx context.Context) error {
	now := q.db.Now()
	ids, err := q.ids(ctx, fmt.Sprintf(`SELECT id FROM approval_questions WHERE status = 'pending' AND daemon = $1
		AND (expires_at <= %d OR type IN ('result', 'changes')) ORDER BY created_at, id`, now.UnixMilli()))
	if err != nil {
		return err
	}
	for _, id := range ids {
		item, err := q.load(ctx, id)
		if err != nil {
			return err
		}
		a := timedOut
		if item.Type == TypeResult || item.Type == TypeChanges {
			a = answer{Status: StatusCancelled, Code: CodeCancelled, Reason: "the daemon was restarted"}
		}
		item.apply(a, now)
		err = q.recorded(ctx, Event{Kind: EventDecided, Item: item}, func(tx *sql.Tx) error {
			return updateAnswer(tx, id, a, now, q.opts.Reuse, 0, false)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// add and drop keep the three maps in step. The caller holds mu.
func (q *Queue) add(w *waiting) {
	q.waiting[w.id] = w
	q.digests[w.key] = w
	q.session[w.session]++
	w.timer = time.AfterFunc(w.expires.Sub(q.db.Now()), func() { q.expire(w) })
}

func (q *Queue) drop(w *waiting) {
	w.timer.Stop()
	delete(q.waiting, w.id)
	delete(q.digests, w.key)
	if q.session[w.session]--; q.session[w.session] <= 0 {
		delete(q.session, w.session)
	}
}

// Pending returns how many questions wait for a person.
func (q *Queue) Pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// Close refuses the questions for whose answers callers wait, and all later questions. Questions without a caller stay
// in the database for the next start.
func (q *Queue) Close(reason string) error {
	if reason == "" {
		reason = "the daemon is stopping"
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != "" {
		return nil
	}
	q.closed = reason
	q.feed.close()
	err := q.cancel(context.Background(), reason, func(w *waiting) bool { return len(w.callers) > 0 })
	for _, w := range q.waiting {
		w.timer.Stop()
	}
	return err
}

// CancelSession refuses everything a session waits for, as when it is deleted
//
func (q *Queue) CancelSession(ctx context.Context, session, reason string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.cancel(ctx, reason, func(w *waiting) bool { return w.session == session })
	if q.db.Shared() {
		err = errors.Join(err, q.cancelElsewhere(ctx, session, reason))
	}
	return err
}
