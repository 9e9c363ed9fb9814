package policy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/policy/input"

	library "github.com/sandboxd/sandboxd/rego"
)

// basisVersion is raised when a field of [Basis] changes its meaning.
const basisVersion = 1

// Basis holds everything that a decision used beside the input, so that the call can be judged again.
type Basis struct {
	Form     string    `json:"form"` // of the input and of this; another one cannot be judged again
	First    time.Time `json:"first_judged_at"`
	Judged   time.Time `json:"judged_at"`      // the last time, by which the decision is
	Counting time.Time `json:"counting_since"` // when the daemon began to count calls
	Kept     time.Time `json:"kept_since"`     // since when every call was kept

	Beside   tool.Beside `json:"beside"`
	Callback *Said       `json:"can_use_tool,omitempty"` // absent: it was not asked

	Ran          bool   `json:"ran"`
	Hypothetical bool   `json:"hypothetical,omitempty"`   // nobody ran or runs it
	Not          string `json:"not_replayable,omitempty"` // why it cannot be judged again
}

// Said is the answer of the callback; without a verdict it had no opinion.
type Said struct {
	Verdict string `json:"verdict,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

func (d *Decisions) basis(c *tool.Call, seen *evidence) *Basis {
	b := &Basis{
		Form: inputForm(), Counting: d.o.Counting, Kept: *d.whole.Load(), Beside: c.Beside, Ran: c.Ran(),
		Hypothetical: c.Request.Hypothetical,
	}
	if c.Undoable {
		b.Not = "nobody was asked, because all that it could lose was kept then"
	}
	if seen != nil {
		b.First, b.Judged = seen.first, seen.at
	}
	return b
}

// see adds what the policies saw, as it may be written.
func (b *Basis) see(seen *evidence, w keptInput) {
	b.Beside.HookSays = w.redact(b.Beside.HookSays)
	b.Beside.Refused = slices.Clone(b.Beside.Refused)
	for i := range b.Beside.Refused {
		redactReason(&b.Beside.Refused[i].Reason, w.redact)
	}
	if o := seen.opinion; o != nil {
		b.Callback = &Said{}
		if o.Opinion != nil {
			b.Callback.Verdict, b.Callback.Reason = o.Verdict.String(), w.redact(o.Reason)
		}
	}
	switch {
	case !w.whole:
		b.Not = "a part of its input is masked"
	case seen.rewrites:
		b.Not = "its arguments were changed by policies or by canUseTool"
	}
}

// inputForm names the form of what is recorded: the versions, and the fields of the schema.
var inputForm = sync.OnceValue(func() string {
	var schema any
	b, err := library.Files.ReadFile("schemas/input.json")
	if err == nil {
		err = json.Unmarshal(b, &schema)
	}
	if err != nil {
		panic("cannot happen, a test reads the embedded schema: " + err.Error())
	}
	withoutText(schema)
	b, _ = json.Marshal(schema) // it was JSON
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%d.%d.%s", basisVersion, input.Version, hex.EncodeToString(sum[:4]))
})

// withoutText takes the descriptions out of a schema: a better one changes no form.
func withoutText(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			withoutText(e)
		}
	case map[string]any:
		if _, text := v["description"].(string); text {
			delete(v, "description")
		}
		for _, e := range v {
			withoutText(e)
		}
	}
}

// NotReplayable says why a recorded call cannot be judged again with an exact answer.
type NotReplayable string

func (n NotReplayable) Error() string { return string(n) }

// Recorded is a recorded call that can be judged again.
type Recorded struct {
	Record
	Call  *tool.Call // what is known of it: for counts, and for who judges it
	input *input.Document
}

// Again makes a record ready for judging it again. The error is a [NotReplayable].
func (r Record) Again() (*Recorded, error) {
	b := r.Basis
	switch {
	case b == nil:
		return nil, NotReplayable("it was recorded by an older version of sandboxd")
	case b.Form != inputForm():
		return nil, NotReplayable(fmt.Sprintf(
			"it was recorded by another version of sandboxd, in the form %s; this one has %s", b.Form, inputForm()))
	case b.Not != "":
		return nil, NotReplayable(b.Not)
	case len(r.Decision.Reasons) > 0 && r.Decision.Reasons[0].Rule == "core.callback":
		return nil, NotReplayable("policy.canUseTool failed")
	}
	var in input.Document
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return nil, NotReplayable("its input cannot be read: " + err.Error())
	}
	return &Recorded{Record: r, Call: callOf(r.CallID, &in), input: &in}, nil
}

// callOf returns the call of a recorded input, so that it can be judged again: its account, session, tool and
// arguments. The record has no more of the call, so it cannot be run.
func callOf(id string, in *input.Document) *tool.Call {
	return &tool.Call{
		ID:      id,
		Request: tool.Request{Account: in.Session.Account, Session: in.Session.ID, Tool: in.Tool.Name},
		Target: tool.Target{
			Session: tool.Session{
				ID: in.Session.ID, Account: in.Session.Account, Dir: in.Session.Dir, Begun: in.Session.Base,
				Home: in.Session.Home, Mode: in.Mode,
			},
			Spec: tool.Spec{Name: in.Tool.Name, Class: tool.Class(in.Tool.Class), ReadOnly: in.Tool.ReadOnly},
		},
		In: tool.In{Args: in.Params, Dir: in.Session.Dir, Home: in.Session.Home},
	}
}

// Judge judges recorded calls by one revision, on the code that judges every call. It joins
// what the others said then: settings, tool, hooks, cage.
type Judge struct {
	engine   *Engine
	revision *revision
}

// Rejudged is the present decision about a recorded call.
type Rejudged struct {
	Decision tool.Decision
	Counted  bool // a rule that could hold for it reads input.recent
}

// Judge returns the judge by the policies in force now.
func (e *Engine) Judge() Judge { return Judge{e, e.current.Load()} }

// Revision returns the revision that judges.
func (j Judge) Revision() string { return j.revision.id }

// Counts reports whether a rule reads input.recent.
func (j Judge) Counts() bool { return j.revision.counts }

// Judge judges one call. Counts are of the calls before it; nil counts none. A [NotReplayable]
// error says why the answer would be a guess.
func (j Judge) Judge(ctx context.Context, c *Recorded, counts Counts) (Rejudged, error) {
	var said *opinion
	if s := c.Basis.Callback; s != nil {
		said = &opinion{s.opinion()}
	}
	d, view, err := j.again(ctx, c.Call, c.input, counts, said)
	if err != nil {
		return Rejudged{}, err
	}
	d, err = joined(d, c.Decision.Obligations, c.Basis.Beside, c.Tool, c.Mode)
	return Rejudged{Decision: d, Counted: j.revision.countsFor(view)}, cmp.Or(err, ctx.Err())
}

// again judges an input that was judged before, and returns the decision with the input as the policies saw it now. It
// does not ask the callback again but uses its recorded answer.
func (j Judge) again(ctx context.Context, c *tool.Call, in *input.Document, counts Counts, said *opinion) (
	tool.Decision, *input.Document, error,
) {
	var ask callback.CanUseTool
	if j.engine.opts.CanUseTool != nil {
		if said == nil {
			return tool.Decision{}, nil, NotReplayable("policy.canUseTool was not asked about it")
		}
		ask = func(context.Context, string, json.RawMessage, callback.Context) (*callback.Opinion, error) {
			return said.Opinion, nil
		}
	}
	view := *in // the rest is shared and stays as it is
	d := j.engine.decide(ctx, c, &evidence{revision: j.revision, input: &view}, counts, ask)
	if d.Args != nil {
		return d, nil, NotReplayable("the policies change its arguments, and what comes of that was not judged then")
	}
	return d, &view, nil
}

// joined joins what policies say with what the others said of the same call, when the
// settings were asked under these obligations.
func joined(d tool.Decision, asked guard.Obligations, b tool.Beside, name string, mode tool.Mode) (
	tool.Decision, error,
) {
	o := d.Obligations
	if d.Verdict != tool.Deny && (o.NoNetwork != asked.NoNetwork || o.ReadOnly != asked.ReadOnly) {
		return d, NotReplayable("the policies put it under other conditions, for which the settings were not asked")
	}
	return d.Beside(b, name, mode), nil
}

// opinion returns the recorded answer of another judge; nil if it had none.
func (s *Said) opinion() *callback.Opinion {
	switch s.Verdict {
	case "":
		return nil
	case tool.Allow.String():
		return callback.Allow()
	case tool.Ask.String():
		return callback.AskPerson(s.Reason)
	}
	return callback.Deny(s.Reason)
}

// countsFor reports whether a rule that could hold for the call reads input.recent.
func (r *revision) countsFor(in *input.Document) bool {
	return r.counts && slices.ContainsFunc(r.packages, func(p judgedPackage) bool {
		return (p.reads == nil || p.reads["recent"]) && p.prefilter.admits(in)
	})
}

// Input returns what the policies saw of the call. It must not be changed.
func (c *Recorded) Input() *input.Document { return c.input }
