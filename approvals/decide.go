package approvals

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// The scopes a yes can be remembered for.
const (
	RememberOnce    = "once" // also ""
	RememberSession = "session"
	RememberAlways  = "always"
)

// Decision is the answer of a person.
type Decision struct {
	Approved bool
	Reason   string          // for the model when refused; the answer to a question
	Remember string          // once, session or always
	Args     json.RawMessage // an edit; it is judged again
	By       string          // who

	digest string // of the call with Args
}

// answer is a decision as it is stored.
type answer struct {
	Status   Status          `json:"status"`
	Reason   string          `json:"reason,omitempty"`
	Remember string          `json:"remember,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"`
	By       string          `json:"by,omitempty"`
	Code     string          `json:"code,omitempty"`   // when no person gave it
	Digest   string          `json:"digest,omitempty"` // of the call with Args
}

func (a answer) approval(id string, at time.Time) tool.Approval {
	return tool.Approval{
		ID: id, Approved: a.Status == StatusApproved, Reason: a.Reason, By: a.By, Code: a.Code,
		Remember: a.Remember, Args: a.Args, Digest: a.Digest, Answered: at,
	}
}

// Decide answers a question. The errors are [*tool.Error] with the codes
// not_found, already_decided, expired and invalid_decision. An edit is judged before it
// counts: arguments that would be denied are invalid, and the question waits on.
func (q *Queue) Decide(ctx context.Context, id string, d Decision) (Item, error) {
	if err := q.edited(ctx, id, &d); err != nil {
		return Item{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.waiting[id]
	if w == nil && q.db.Shared() {
		return q.decideElsewhere(ctx, id, d)
	}
	if w == nil {
		return Item{}, q.gone(ctx, id)
	}
	if !w.expires.After(q.db.Now()) {
		if err := q.end(ctx, w, timedOut); err != nil {
			return Item{}, err
		}
		return Item{}, expired(id)
	}
	item, err := q.settle(ctx, w, d.answer)
	if errors.Is(err, errState) && q.db.Shared() {
		err = q.gone(ctx, id)
	}
	return item, err
}

// edited fills the digest of an edit. Judging may take long, so nothing is locked.
func (q *Queue) edited(ctx context.Context, id string, d *Decision) error {
	if len(d.Args) == 0 {
		return nil
	}
	item, err := q.load(ctx, id)
	if err != nil {
		return err
	}
	a, err := d.answer(item)
	if err != nil || item.Status != StatusPending {
		return err // what is decided already says so itself
	}
	if d.digest, err = q.opts.Edited(ctx, item, a.Args); err != nil {
		return invalid("the call cannot run with these arguments: "+err.Error(),
			"the question still waits; give others, or refuse it")
	}
	return nil
}

// settle stores the answer to a question, gives it to the callers that wait and removes the question from memory. If
// anything fails, the question stays open. The caller holds mu.
func (q *Queue) settle(ctx context.Context, w *waiting, decide func(Item) (answer, error)) (Item, error) {
	item, err := q.load(ctx, w.id)
	if err != nil {
		return Item{}, err
	}
	a, err := decide(item)
	if err != nil {
		return Item{}, err
	}
	now := q.db.Now()
	item.apply(a, now)
	item.Waiting = len(w.callers)
	err = q.recorded(ctx, Event{Kind: EventDecided, Item: item, By: a.By}, func(tx *sql.Tx) error {
		if err := updateAnswer(tx, w.id, a, now, q.opts.Reuse, len(w.callers), true); err != nil {
			return err
		}
		return errors.Join(q.grant(tx, item, now), q.db.Notify(tx, changes))
	})
	if errors.Is(err, errState) && q.db.Shared() {
		return Item{}, errors.Join(err, q.deliver(ctx, w.id))
	}
	if err != nil {
		w.doubtful = q.db.Shared()
		return Item{}, err
	}
	q.release(w, a.approval(w.id, now))
	q.feed.send(Event{Kind: EventDecided, Item: item, By: a.By})
	return item, nil
}

// release answers the callers that wait and removes the question from memory. The caller holds mu.
func (q *Queue) release(w *waiting, a tool.Approval) {
	for _, c := range w.callers {
		c <- a
	}
	q.drop(w)
}

// answer checks the decision against what was asked.
func (d Decision) answer(item Item) (answer, error) {
	a := answer{Status: StatusRefused, Reason: d.Reason, By: d.By, Remember: d.Remember}
	if a.Remember == "" {
		a.Remember = RememberOnce
	}
	if d.Approved {
		a.Status = StatusApproved
	}
	if !slices.Contains(item.Remember, a.Remember) {
		return a, invalid(
			fmt.Sprintf("this answer cannot be remembered for %q", a.Remember),
			"it can be remembered for: "+strings.Join(item.Remember, ", "))
	}
	if len(d.Args) > 0 {
		if item.Type != TypeExecution || !d.Approved {
			return a, invalid("only a call that is approved can be given other arguments", "leave args out")
		}
		args, err := strictjson.Canonical(d.Args)
		if err != nil || args[0] != '{' {
			return a, invalid("args is not a JSON object",
				"send the whole arguments of the call, changed as you want them")
		}
		a.Args, a.Digest = args, d.digest
	}
	if a.Reason == "" && !d.Approved {
		a.Reason = map[Type]string{
			TypeExecution: reasonExecution, TypeResult: reasonResult, TypeQuestion: reasonQuestion,
			TypeConnection: reasonConnection, TypeChanges: reasonChanges,
		}[item.Type]
	}
	return a, nil
}

func (i *Item) apply(a answer, at time.Time) {
	at = fromMillis(at.UnixMilli())
	i.Status, i.Reason, i.Remembered, i.EditedArgs = a.Status, a.Reason, a.Remember, a.Args
	i.DecidedBy, i.DecidedAt = a.By, &at
}

// gone returns the error that says why a question cannot be answered any more.
func (q *Queue) gone(ctx context.Context, id string) error {
	item, err := q.load(ctx, id)
	switch {
	case err != nil:
		return err
	case item.Status == StatusExpired:
		return expired(id)
	}
	return &tool.Error{
		Code: "already_decided", Stage: "approve",
		Msg:     fmt.Sprintf("question %q is %s already", id, item.Status),
		Hint:    "list the pending ones",
		Details: map[string]any{"status": item.Status, "decided_by": item.DecidedBy},
	}
}

func notFound(id string) error {
	return &tool.Error{
		Code: "not_found", Stage: "approve", Msg: fmt.Sprintf("no question %q", id),
		Hint: "list the pending ones",
	}
}

func expired(id string) error {
	return &tool.Error{
		Code: "expired", Stage: "approve", Msg: fmt.Sprintf("question %q has expired; the call was refused", id),
		Hint: "the caller can send the call again",
	}
}

func invalid(msg, hint string) error {
	return &tool.Error{Code: "invalid_decision", Stage: "approve", Msg: msg, Hint: hint}
}
