package policy

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/store"
	"github.com/sandboxd/sandboxd/tool"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Schema is the table of decisions.
func Schema() store.Schema { return store.Embedded("policy", migrations) }

// DecisionOptions say what is written and how long it stays.
type DecisionOptions struct {
	Keep   time.Duration       // 0 or less keeps nothing
	Redact func(string) string // over every text; nil changes nothing
	Failed func(error)         // what could not be written; nil ignores it
	Now    func() time.Time    // nil is time.Now
}

// Decisions keeps what was judged, and how, for a while: for explaining a call
// later. It holds arguments, so it is not the audit; masks of package
// sandboxd.audit.mask and the redactor are applied to all that is written.
//
// Writing is apart from the call: a crash loses the last moments, and a failure
// to write refuses nothing. That is what the audit is for.
type Decisions struct {
	db *store.DB
	o  DecisionOptions

	keep  atomic.Int64 // nanoseconds
	queue chan *judgedCall
	flush chan chan struct{}
	stop  func()
	done  chan struct{}
}

// judgedCall is what is copied of a call while it runs.
type judgedCall struct {
	Record
	seen *evidence
}

// Record is what is kept of one call. A judged call has its explanation, without
// the input if that could not be masked.
type Record struct {
	CallID  string    `json:"call_id"`
	At      time.Time `json:"at"`
	Account string    `json:"account"`
	Session string    `json:"session_id"`
	Tool    string    `json:"tool"`
	Mode    string    `json:"mode"`
	Explanation
}

// maxWaiting is how many calls wait for the writer before a call waits itself.
const maxWaiting = 1024

// NewDecisions starts the writer. Close it before the database.
func NewDecisions(db *store.DB, o DecisionOptions) *Decisions {
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	stop := make(chan struct{})
	d := &Decisions{
		db: db, o: o, queue: make(chan *judgedCall, maxWaiting), flush: make(chan chan struct{}), done: make(chan struct{}),
		stop: sync.OnceFunc(func() { close(stop) }),
	}
	d.Keep(o.Keep)
	go d.write(stop)
	return d
}

// Keep changes how long decisions stay.
func (d *Decisions) Keep(t time.Duration) { d.keep.Store(int64(t)) }

// Judged takes the decision of a call that has ended.
func (d *Decisions) Judged(c *tool.Call) {
	seen, _ := c.Decision.Judged.(*evidence)
	if d.keep.Load() <= 0 || len(c.Decision.Reasons) == 0 {
		return
	}
	dec := c.Decision
	dec.Judged = nil
	j := &judgedCall{seen: seen, Record: Record{
		CallID: c.ID, At: d.o.Now(), Account: c.Session.Account, Session: c.Session.ID, Tool: c.Spec.Name, Mode: c.Session.Mode,
		Explanation: Explanation{Decision: dec, Findings: []Finding{}},
	}}
	select {
	case d.queue <- j:
	case <-d.done:
	}
}

// Find gives the record of a call of an account, ErrNoDecision without one.
func (d *Decisions) Find(ctx context.Context, account, callID string) (Record, error) {
	d.Flush()
	var text string
	err := d.db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT record FROM decisions WHERE call_id = $1 AND account = $2`, callID, account).Scan(&text)
	})
	var r Record
	if errors.Is(err, sql.ErrNoRows) {
		return r, ErrNoDecision
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &r)
	}
	return r, err
}

// ErrNoDecision is a call that was not judged, or longer ago than records are kept.
var ErrNoDecision = errors.New("no decision about this call is kept")

// Flush returns when everything that was judged before is written.
func (d *Decisions) Flush() {
	written := make(chan struct{})
	select {
	case d.flush <- written:
		<-written
	case <-d.done:
	}
}

// Close writes what waits and ends the writer.
func (d *Decisions) Close() {
	d.stop()
	<-d.done
}

// gatherTime is how long decisions wait for others, to be written together.
const gatherTime = 200 * time.Millisecond

// write saves what has gathered in one transaction, then waits for more.
func (d *Decisions) write(stop <-chan struct{}) {
	defer close(d.done)
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	d.prune()
	var batch []*judgedCall
	var due <-chan time.Time // nil while nothing waits
	for {
		select {
		case j := <-d.queue:
			if batch = append(batch, j); len(batch) < maxWaiting {
				if due == nil {
					due = time.After(gatherTime)
				}
				continue
			}
			d.save(batch)
		case <-due:
			d.save(batch)
		case written := <-d.flush:
			d.save(d.waiting(batch))
			close(written)
		case <-tick.C:
			d.prune()
			continue
		case <-stop:
			d.save(d.waiting(batch))
			return
		}
		batch, due = nil, nil
	}
}

// waiting is batch with all that is in the queue now.
func (d *Decisions) waiting(batch []*judgedCall) []*judgedCall {
	for {
		select {
		case j := <-d.queue:
			batch = append(batch, j)
		default:
			return batch
		}
	}
}

func (d *Decisions) save(batch []*judgedCall) {
	if len(batch) == 0 {
		return
	}
	ctx := context.Background()
	texts := make([][]byte, len(batch))
	for i, j := range batch {
		var err error
		if texts[i], err = json.Marshal(j.explained(ctx, d.o.Redact)); err != nil {
			d.o.Failed(fmt.Errorf("keep the decision about %s: %w", j.CallID, err))
			return
		}
	}
	err := d.db.Write(ctx, func(tx *sql.Tx) error {
		for i, j := range batch {
			_, err := tx.ExecContext(ctx, `INSERT INTO decisions (call_id, at, account, session, tool, revision, verdict, record)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, j.CallID, j.At.UnixMilli(), j.Account, j.Session, j.Tool,
				j.Decision.Revision, j.Decision.Verdict.String(), string(texts[i]))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		d.o.Failed(fmt.Errorf("keep %d decisions: %w", len(batch), err))
	}
}

// explained adds what the policies saw and said, as it may be written.
func (j *judgedCall) explained(ctx context.Context, redact func(string) string) Record {
	r := j.Record
	if j.seen == nil {
		r.Note = "no rule was asked"
		return r
	}
	var err error
	if r.Input, redact, err = j.seen.revision.document(ctx, j.seen.input, redact); err != nil {
		r.Note = "the input, and what was said of it, is left out: " + err.Error()
		r.Decision.Reasons = nil
		return r
	}
	r.Decision.Reasons = append([]tool.Reason{}, r.Decision.Reasons...)
	for i := range r.Decision.Reasons {
		r.Decision.Reasons[i].Message = redact(r.Decision.Reasons[i].Message)
		r.Decision.Reasons[i].Hint = redact(r.Decision.Reasons[i].Hint)
	}
	for _, f := range j.seen.findings {
		f.Message, f.Hint, f.Subject = redact(f.Message), redact(f.Hint), redact(f.Subject)
		f.Patch = nil // it holds arguments
		r.Findings = append(r.Findings, f)
	}
	return r
}

func (d *Decisions) prune() {
	ctx := context.Background()
	err := d.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM decisions WHERE at < $1`, d.o.Now().Add(-time.Duration(d.keep.Load())).UnixMilli())
		return err
	})
	if err != nil {
		d.o.Failed(fmt.Errorf("drop old decisions: %w", err))
	}
}
