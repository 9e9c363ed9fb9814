package approvals

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// The codes of an answer that no person gave.
const (
	CodeTimedOut   = "approval_timed_out"
	CodeNoApprover = "no_approver"
	CodeTooMany    = "too_many_questions"
	CodeCancelled  = "approval_cancelled"
	CodeLeft       = "caller_left"
)

// The texts of a refusal without one of its own.
const (
	reasonExecution       = "Execution rejected by user"
	reasonResult          = "Result rejected by user"
	reasonQuestion        = "the person does not want to answer"
	reasonLeft            = "the caller left before a person answered"
	reasonTimedOut        = "approval timed out"
	reasonNoExecution     = "No execution approval callback set"
	reasonNoResult        = "No result approval callback set"
	reasonNobodyQuestions = "nobody is there to answer questions"
	reasonChanges         = "Changes refused by user"
	reasonNoChanges       = "nobody is there to be asked about changes"
)

// Execution asks whether the call may run. Its decision must be an ask; the
// answer binds c.Digest.
func (q *Queue) Execution(ctx context.Context, c *tool.Call) (tool.Approval, error) {
	if c.Digest == "" {
		return tool.Approval{}, errors.New("ask about a call that has no digest")
	}
	item := itemOf(c, TypeExecution)
	item.Digest, item.own = c.Digest, c.Request.Own != nil
	if answerable(c) {
		item.Remember = []string{RememberOnce, RememberSession, RememberAlways}
		item.Links = linksOf(c)
		item.AskOnce = c.Spec.Execution == tool.ExecAskOnce
	}
	return q.ask(ctx, item, c.In.Emit)
}

// answerable reports whether a grant may answer for a person: only where a mode
// or the tool's own ask-once asks, never where a rule, a hook or the floor does.
func answerable(c *tool.Call) bool {
	if c.Spec.Execution == tool.ExecAskAlways || c.Advice.Ask { // a hook may ask beside the tool
		return false
	}
	return c.Decision.By == tool.ByMode || (c.Decision.By == tool.ByTool && c.Spec.Execution == tool.ExecAskOnce)
}

// Result asks whether the model may see the result of the call. Every result is a separate question.
func (q *Queue) Result(ctx context.Context, c *tool.Call) (tool.Approval, error) {
	item := itemOf(c, TypeResult)
	item.Result, item.ResultState = c.Result.FormattedText, c.Result.Status
	if c.Result.Status == tool.StatusError { // all that is left of a call that failed
		item.Result = c.Result.FinalText
	}
	item.Digest = digest("result", c.ID, c.Digest, string(c.Result.Status), item.Result)
	item.Why = []tool.Reason{{
		Rule:    "tool:results",
		Message: fmt.Sprintf("results of %s are shown to a person first (%s)", c.Spec.Name, c.Spec.Results),
	}}
	return q.ask(ctx, item, c.In.Emit)
}

// Changes asks whether the changes of the call may stay. The changes of every call are a separate question.
func (q *Queue) Changes(ctx context.Context, c *tool.Call, made tool.Changing) (tool.Approval, error) {
	item := itemOf(c, TypeChanges)
	item.Changes, item.Why = &made, made.Why
	item.Digest = digest("changes", c.ID, c.Digest)
	return q.ask(ctx, item, c.In.Emit)
}

// digest is over the parts with their lengths, so that no two lists are the same
// text.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ask files the question, or joins the one that waits, tells the caller and waits.
func (q *Queue) ask(ctx context.Context, item Item, emit func(tool.Progress)) (tool.Approval, error) {
	asked := time.Now()
	w, answers, answer, err := q.fileApart(ctx, item)
	if err != nil || answers == nil {
		if answer.Asked = asked; answer.Answered.Before(asked) { // given before this call came
			answer.Asked = answer.Answered
		}
		return answer, err
	}
	if emit != nil {
		emit(tool.Progress{Waiting: &tool.Waiting{
			CallID: item.CallID, Approval: w.id, Type: string(item.Type), Why: item.Why, Asked: asked, Until: w.expires,
		}})
	}
	select {
	case answer = <-answers:
	case <-ctx.Done():
		return q.leave(w, answers)
	}
	answer.Asked = asked
	return answer, nil
}

// fileApart is file on a goroutine of its own: the database grows a stack to
// 16 KB, and this one may keep its stack for minutes, 10,000 times. There are few
// of those at once, for the same reason.
func (q *Queue) fileApart(ctx context.Context, item Item) (
	w *waiting, answers chan tool.Approval, a tool.Approval, err error,
) {
	key, err := keyOf(ctx, item) // before the place is taken, for which other accounts wait too
	if err != nil {
		return nil, nil, tool.Approval{}, err
	}
	q.filing <- struct{}{}
	defer func() { <-q.filing }()
	var done sync.WaitGroup
	done.Go(func() {
		found := false
		if key != "" { // a grant may answer as well
			a, found, err = q.remembered(ctx, item, key)
		}
		if !found && err == nil {
			w, answers, a, err = q.file(ctx, item)
		}
	})
	done.Wait()
	return w, answers, a, err
}

// file returns either a channel to wait on or, when that is nil, the answer.
func (q *Queue) file(ctx context.Context, item Item) (*waiting, chan tool.Approval, tool.Approval, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != "" {
		return nil, nil, nobody(CodeCancelled, q.closed), nil
	}
	now := q.db.Now()
	key := digestKey{item.Type, item.Digest}
	answer, found, err := q.lateAnswer(ctx, key, now)
	if err != nil || found {
		return nil, nil, answer, err
	}
	w := q.digests[key]
	if w != nil && !w.expires.After(now) {
		if err := q.end(ctx, w, timedOut); err != nil {
			return nil, nil, tool.Approval{}, err
		}
		w = nil
	}
	if w != nil && w.doubtful { // an answer that is stored is not for who comes after it
		if err := q.deliver(ctx, w.id); err != nil {
			return nil, nil, tool.Approval{}, err
		}
		w = q.digests[key]
	}
	if w != nil {
		item.ID, item.ExpiresAt = w.id, w.expires
		q.feed.send(Event{Kind: EventJoined, Item: item})
	} else {
		if refusal, refused := q.refuse(item); refused {
			return nil, nil, refusal, nil
		}
		w, err = q.insert(ctx, item, now)
		if many, ok := errors.AsType[tooMany](err); ok {
			return nil, nil, nobody(CodeTooMany, many.Error()), nil
		}
		if err != nil {
			return nil, nil, tool.Approval{}, err
		}
	}
	answers := make(chan tool.Approval, 1)
	w.callers = append(w.callers, answers)
	return w, answers, tool.Approval{}, nil
}

// refuse says why a new question cannot be asked at all.
func (q *Queue) refuse(item Item) (tool.Approval, bool) {
	switch {
	case !q.opts.Approver:
		reason := map[Type]string{
			TypeExecution: reasonNoExecution, TypeResult: reasonNoResult, TypeQuestion: reasonNobodyQuestions,
			TypeConnection: reasonNoConnection, TypeChanges: reasonNoChanges,
		}[item.Type]
		return nobody(CodeNoApprover, reason), true
	case !q.heard(item.Type):
		return nobody(CodeNoApprover, reasonUnheard), true
	}
	if err := q.bound(q.session[item.SessionID], len(q.waiting)); err != nil {
		return nobody(CodeTooMany, err.Error()), true
	}
	return tool.Approval{}, false
}

// tooMany is a question that cannot be asked, because so many wait.
type tooMany struct{ why string }

func (t tooMany) Error() string { return t.why }

// bound refuses a question if this many others of its session, or of all sessions, already wait.
func (q *Queue) bound(session, all int) error {
	switch {
	case session >= q.opts.MaxPerSession:
		return tooMany{fmt.Sprintf("%d questions of this session wait already", q.opts.MaxPerSession)}
	case all >= q.opts.Max:
		return tooMany{fmt.Sprintf("%d questions wait already", q.opts.Max)}
	}
	return nil
}

// nobody returns a refusal that no person gave.
func nobody(code, reason string) tool.Approval {
	return tool.Approval{Code: code, Reason: reason, Answered: time.Now()}
}

func (q *Queue) insert(ctx context.Context, item Item, now time.Time) (*waiting, error) {
	item.ID = "apr_" + rand.Text()
	item.CreatedAt = fromMillis(now.UnixMilli())
	item.ExpiresAt = fromMillis(now.Add(q.opts.Timeout).UnixMilli())
	item.Waiting, item.Daemon = 1, q.db.Daemon()
	text, err := encoded(item)
	if err != nil {
		return nil, err
	}
	err = q.recorded(ctx, Event{Kind: EventAsked, Item: item}, func(tx *sql.Tx) error {
		if now.Sub(q.pruned) >= pruneEvery {
			if err := prune(tx, now); err != nil {
				return err
			}
			q.pruned = now
		}
		if err := q.boundElsewhere(tx, item.SessionID); err != nil {
			return err
		}
		return errors.Join(insertItem(tx, item, text), q.db.Notify(tx, changes))
	})
	if err != nil {
		return nil, err
	}
	w := &waiting{
		id: item.ID, session: item.SessionID, key: digestKey{item.Type, item.Digest}, expires: item.ExpiresAt,
		own: item.own,
	}
	q.add(w)
	q.feed.send(Event{Kind: EventAsked, Item: item})
	return w, nil
}

// recorded makes a change that is in the record before it counts. In a database that daemons share
// it is recorded once it is known to be the first: that database has no part of the record. Over a
// file the queue knows before.
func (q *Queue) recorded(ctx context.Context, e Event, change func(*sql.Tx) error) error {
	record := func() error {
		if err := q.opts.Record(ctx, e); err != nil {
			return fmt.Errorf("record %s of %q: %w", e.Kind, e.Item.ID, err)
		}
		return nil
	}
	if q.db.Shared() {
		return q.db.Write(ctx, func(tx *sql.Tx) error {
			if err := change(tx); err != nil {
				return err
			}
			return record()
		})
	}
	if err := record(); err != nil {
		return err
	}
	return q.db.Write(ctx, change)
}

// expire ends the question when its time is up, unless an answer came first. If
// that cannot be stored, the callers are refused all the same.
func (q *Queue) expire(w *waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[w.id] != w {
		return
	}
	if err := q.end(context.Background(), w, timedOut); err != nil && q.waiting[w.id] == w {
		q.release(w, timedOut.approval(w.id, time.Now()))
	}
}

// leave takes a caller that went away out of the question. An answer that came
// at the same moment stays usable for it.
func (q *Queue) leave(w *waiting, answers chan tool.Approval) (tool.Approval, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := answer{Status: StatusCancelled, Code: CodeLeft, Reason: reasonLeft}
	ctx := context.Background() // that of the caller is over
	if q.waiting[w.id] != w {
		return left.approval(w.id, time.Now()), q.db.Write(ctx, func(tx *sql.Tx) error { return giveBack(tx, w.id) })
	}
	w.callers = slices.DeleteFunc(w.callers, func(c chan tool.Approval) bool { return c == answers })
	alone := w.own && len(w.callers) == 0
	if alone || w.key.kind == TypeResult || w.key.kind == TypeChanges { // they are gone with their call
		return left.approval(w.id, time.Now()), q.end(ctx, w, left)
	}
	return left.approval(w.id, time.Now()), nil
}

var timedOut = answer{Status: StatusExpired, Code: CodeTimedOut, Reason: reasonTimedOut}

// end closes a question without a person. The caller holds mu.
func (q *Queue) end(ctx context.Context, w *waiting, a answer) error {
	_, err := q.settle(ctx, w, func(Item) (answer, error) { return a, nil })
	return err
}

// cancel ends the questions that match. The caller holds mu.
func (q *Queue) cancel(ctx context.Context, reason string, match func(*waiting) bool) error {
	var errs []error
	for _, w := range q.waiting {
		if match(w) {
			errs = append(errs, q.end(ctx, w, answer{Status: StatusCancelled, Code: CodeCancelled, Reason: reason}))
		}
	}
	return errors.Join(errs...)
}
