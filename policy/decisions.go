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

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Schema returns the table of decisions.
func Schema() store.Schema { return store.Embedded("policy", migrations) }

// DecisionOptions say what is written and how long it stays.
type DecisionOptions struct {
	Keep   time.Duration       // 0 or less keeps nothing
	Redact func(string) string // over every text; nil changes nothing
	Failed func(error)         // what could not be written; nil ignores it
	Now    func() time.Time    // nil is time.Now
	// Counting is when Options.Recent began to count; calls that count are judged again with
	// what was counted since then. The zero value is now.
	Counting time.Time
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

	keep  atomic.Int64              // nanoseconds
	whole atomic.Pointer[time.Time] // since when every call was kept
	queue chan *judgedCall
	flush chan chan struct{}
	stop  func()
	done  chan struct{}
}

// judgedCall holds the fields that are copied from a call while it runs.
type judgedCall struct {
	Record
	seen  *evidence
	large bool         // the input is left out
	hold  *budget.Hold // of the input, until it is written
}

// What of a call is kept with its input: decoded, that of a long command line takes a
// thousand times its length for a moment.
const (
	maxInputCommand = 16 << 10 // bytes of the arguments of a program
	maxInputArgs    = 1 << 20  // of others
	inputFactor     = 400      // bytes that wait for each of a program's arguments
)

// Record is what is kept of one call. A judged call has its explanation, without
// the input if that could not be masked.
type Record struct {
	CallID  string    `json:"call_id"`
	At      time.Time `json:"at"`
	Account string    `json:"account"`
	Session string    `json:"session_id"`
	Tool    string    `json:"tool"`
	Mode    tool.Mode `json:"mode"`
	Answer  *Answer   `json:"answer,omitempty"` // of a person, where one was asked
	Basis   *Basis    `json:"basis,omitempty"`  // for judging the call again; none in older records
	Explanation
}

// Answer is the answer of a person to the question about a call.
type Answer struct {
	Question string `json:"question"` // id of the question, or of the answer that was remembered
	Approved bool   `json:"approved"`
	Edited   bool   `json:"edited,omitempty"` // with other arguments
	By       string `json:"by"`
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
	if o.Counting.IsZero() {
		o.Counting = o.Now()
	}
	stop := make(chan struct{})
	d := &Decisions{
		db: db, o: o, queue: make(chan *judgedCall, maxWaiting),
		flush: make(chan chan struct{}), done: make(chan struct{}),
		stop: sync.OnceFunc(func() { close(stop) }),
	}
	d.whole.Store(&d.o.Counting)
	d.keep.Store(int64(o.Keep))
	go d.write(stop)
	return d
}

// Keep changes how long decisions stay.
func (d *Decisions) Keep(t time.Duration) {
	if was := d.keep.Swap(int64(t)); was <= 0 {
		d.gap()
	}
}

// gap says that calls before now may not have been kept.
func (d *Decisions) gap() {
	now := d.o.Now()
	d.whole.Store(&now)
}

// Follow returns the context with which a call must be judged, so that [Decisions.Judged]
// knows what the policies saw.
func (d *Decisions) Follow(ctx context.Context) context.Context {
	if evidenceOf(ctx) != nil { // whoever made the call wants it too
		return ctx
	}
	ctx, _ = WithEvidence(ctx)
	return ctx
}

// Judged takes the decision of a call that has ended. The context is that of Follow.
func (d *Decisions) Judged(ctx context.Context, c *tool.Call) {
	if d.keep.Load() <= 0 || len(c.Decision.Reasons) == 0 {
		return
	}
	seen := evidenceOf(ctx).of(c.Decision)
	j := &judgedCall{seen: seen, Record: Record{
		CallID: c.ID, At: d.o.Now(), Account: c.Session.Account, Session: c.Session.ID, Tool: c.Spec.Name,
		Mode: c.Session.Mode, Answer: answerOf(c), Basis: d.basis(c, seen),
		Explanation: Explanation{Decision: c.Decision, Findings: []Finding{}},
	}}
	if j.seen != nil {
		j.reserve(ctx, c)
	}
	select {
	case d.queue <- j:
	case <-d.done:
		j.hold.Release()
	}
}

// reserve takes memory for the input until it is written, or leaves it out.
func (j *judgedCall) reserve(ctx context.Context, c *tool.Call) {
	n, most, factor := int64(len(c.In.Args)), int64(maxInputArgs), int64(2)
	if c.Spec.Class == tool.ClassExec {
		most, factor = maxInputCommand, inputFactor
	}
	err := error(nil)
	if j.large = n > most; !j.large {
		j.hold, err = budget.Of(ctx).Keep(factor * n)
		j.large = err != nil
	}
	if j.large {
		j.seen = nil
	}
}

func answerOf(c *tool.Call) *Answer {
	a := c.Approval
	if a == nil || a.Code != "" || a.ID == "" { // nobody was asked, or nobody answered
		return nil
	}
	return &Answer{Question: a.ID, Approved: a.Approved, Edited: a.Args != nil, By: a.By}
}

// Find gives the record of a call of an account, or of any for "". The error is
// ErrNoDecision if there is none.
func (d *Decisions) Find(ctx context.Context, account, callID string) (Record, error) {
	d.Flush()
	return Kept(ctx, d.db, account, callID)
}

// Kept is [Decisions.Find] for programs beside the daemon, in its database. What was
// judged in the last moments may not be there yet.
func Kept(ctx context.Context, db *store.DB, account, callID string) (Record, error) {
	var text string
	err := db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT record FROM decisions
			WHERE call_id = $1 AND ($2 = '' OR account = $2)`, callID, account).Scan(&text)
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
	ctx := context.Background()
	for len(batch) > 0 {
		var texts []string
		size := 0
		for _, j := range batch {
			done := j.hold.ComputeNext(ctx) // a large input takes long to mask
			text, err := json.Marshal(j.explained(ctx, d.o.Redact))
			done()
			j.hold.Release()
			if err != nil {
				d.gap()
				d.o.Failed(fmt.Errorf("keep the decision about %s: %w", j.CallID, err))
				for _, other := range batch {
					other.hold.Release()
				}
				return
			}
			texts = append(texts, string(text))
			if size += len(text); size > savedBytes {
				break
			}
		}
		if err := d.insert(ctx, batch[:len(texts)], texts); err != nil {
			d.gap()
			d.o.Failed(fmt.Errorf("keep %d decisions: %w", len(texts), err))
		}
		batch = batch[len(texts):]
	}
}

// savedBytes is how much is written in one transaction, unless one decision is more. Calls wait for it.
const savedBytes = 32 << 10

func (d *Decisions) insert(ctx context.Context, batch []*judgedCall, texts []string) error {
	return d.db.Write(ctx, func(tx *sql.Tx) error {
		for i, j := range batch {
			// A call that a client runs is judged twice, and the second time counts.
			err := d.db.Writing(tx).Run(`INSERT INTO decisions (call_id, at, judged, account, session, tool, revision,
					verdict, record)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (call_id) DO UPDATE SET at = excluded.at,
				account = excluded.account, session = excluded.session, tool = excluded.tool,
				revision = excluded.revision, verdict = excluded.verdict, record = excluded.record`,
				j.CallID, j.At.UnixMilli(), j.first().UnixNano(), j.Account, j.Session, j.Tool, j.Decision.Revision,
				j.Decision.Verdict.String(), texts[i])
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// first returns when the rules were asked about the call for the first time.
func (j *judgedCall) first() time.Time {
	if j.Basis.First.IsZero() {
		return j.At
	}
	return j.Basis.First
}

// explained adds what the policies saw and said, as it may be written.
func (j *judgedCall) explained(ctx context.Context, redact func(string) string) Record {
	r := j.Record
	if j.large {
		r.Note, r.Decision.Reasons = "the input, and what was said of it, is left out: it is too large", nil
		r.Basis.Beside, r.Basis.Not = tool.Beside{}, "its input is too large to be kept"
		return r
	}
	if j.seen == nil {
		r.Note = "no rule was asked"
		r.Basis.Beside, r.Basis.Not = tool.Beside{}, r.Note
		return r
	}
	w, err := j.seen.revision.document(ctx, j.seen.input, redact)
	if err != nil {
		r.Note = "the input, and what was said of it, is left out: " + err.Error()
		r.Decision.Reasons = nil
		r.Basis.Beside, r.Basis.Not = tool.Beside{}, "its input could not be masked, so it is not kept"
		return r
	}
	r.Input = w.doc
	r.Basis.see(j.seen, w)
	r.Decision.Reasons = append([]tool.Reason{}, r.Decision.Reasons...)
	for i := range r.Decision.Reasons {
		redactReason(&r.Decision.Reasons[i], w.redact)
	}
	for _, f := range j.seen.findings {
		f.Message, f.Hint, f.Subject = w.redact(f.Message), w.redact(f.Hint), w.redact(f.Subject)
		f.Patch = nil // it holds arguments
		r.Findings = append(r.Findings, f)
	}
	return r
}

func redactReason(r *tool.Reason, redact func(string) string) {
	r.Message, r.Hint = redact(r.Message), redact(r.Hint)
}

func (d *Decisions) prune() {
	ctx := context.Background()
	err := d.db.Write(ctx, func(tx *sql.Tx) error {
		before := d.o.Now().Add(-time.Duration(d.keep.Load())).UnixMilli()
		_, err := tx.ExecContext(ctx, `DELETE FROM decisions WHERE at < $1`, before)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE decisions_kept SET since = $1 WHERE since < $1`, before)
		return err
	})
	if err != nil {
		d.o.Failed(fmt.Errorf("drop old decisions: %w", err))
	}
}
