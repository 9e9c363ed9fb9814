// Package policy judges calls: what they mean, not how they are written.
//
// An [Engine] holds one compiled revision of the Rego library, the operator's own Rego, permission
// rules and list policies. [Engine.Decide] turns a call into a closed input document, collects
// findings from all of them and from the operator's callback (package callback), and combines the
// findings in Go:
//
//	e, err := policy.New(ctx, policy.Options{Profile: policy.ProfileDeveloper})
//	d, err := e.Decide(ctx, call)
//	// d.Verdict, d.Reasons, d.By, d.Args (a rewrite), d.Obligations
//
// Any deny denies; else any ask asks; else an allow allows; else the permission mode of the session
// decides. The mode changes an ask in two cases: bypassPermissions ignores it, and dontAsk makes it
// a denial. A rewrite comes only with a decision that is not a deny. The caller must judge the call
// again with the rewritten arguments.
//
// Guaranteed: an evaluation that fails, times out, is undefined or has the wrong shape is a deny
// with a reserved core.* rule. A reload that fails keeps the last good revision.
//
// Not judged here: what the settings of the session forbid in any case (the floor). That is package
// guard.
//
// While a call runs, [Engine.Connect] judges its connections, [Engine.JudgeChanges] what it changed and
// [Engine.Withheld] the files that it found. Their error, and that of Decide, is the cancellation of
// ctx; Withheld also returns what it cannot judge. On an error the caller denies. An Engine is safe for
// concurrent use.
//
// The package also has:
//   - [Decisions], which keeps why calls were judged so, and [Judge], which judges them again;
//   - [Shadow], which judges each call by other policies too, and decides nothing;
//   - for authors of policies: [Test], [Diff], [Nearest], [Format], [Init] and [Export];
//   - the routes about policies ([Engine.Part]).
//
// Close Decisions and Shadow before the database.
//
// A new rule is a file below rego/, and nothing here. A new field that rules see belongs in package
// input. What else may have an opinion is asked in Engine.opinions, and its findings are combined with
// those of the rules. What modes mean is the table testdata/modes.csv, which docs/policies.md shows.
package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/callback"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// DefaultDeadline bounds the processor time of one evaluation.
const DefaultDeadline = 100 * time.Millisecond

// Profile names a set of rules of the library.
type Profile string

// The profiles.
const (
	ProfileDeveloper Profile = "developer" // asks about what destroys or publishes; the default
	ProfileObserve   Profile = "observe"   // allows everything and says what developer would have done
	ProfileStrict    Profile = "strict"    // denies what no rule allows
)

// Profiles are all profiles.
var Profiles = []Profile{ProfileDeveloper, ProfileObserve, ProfileStrict}

// Options say which policies hold. The zero value is the developer profile with
// nothing added.
type Options struct {
	Profile Profile          // "" is ProfileDeveloper
	Dirs    []string         // directories with the operator's Rego
	Disable []string         // ids of profile rules that are switched off
	Rules   permission.Rules // permission rules

	Policies []callback.ListPolicy // list policies, all of which must agree
	// Verdict is what an allow by a list policy means: "advisory" (default) leaves the
	// mode in force, "final" does not.
	Verdict string

	Workspaces func() []string // at present, whose WorkspaceFile is read; it may only tighten; nil reads none

	// Facts are those of the examples in the metadata of rules. Nil is an error where a
	// file of Dirs has examples.
	Facts Facts

	// Recent counts calls, for rules that read input.recent. Nil counts none: every number
	// is zero.
	Recent Counts

	RelaxReads bool                // askReadOnly: false; read-only tools run unasked in default and acceptEdits
	Deadline   time.Duration       // processor time of one evaluation; 0 is DefaultDeadline
	CanUseTool callback.CanUseTool // asked after the rules; nil has no opinion
	Reloaded   func(error)         // told of every reload, whoever asked for it; nil is nobody
	Compare    Compare             // looks at every reload before it takes effect; nil lets all pass
	Shadow     *Shadow             // judges every call as well, and decides nothing; nil is none
}

// Compare looks at the policies that a reload would put in force, and says what they loosen.
// Its error keeps those before; loosen is what whoever asks for the reload accepts.
type Compare func(ctx context.Context, before, after Judge, loosen bool) (Loosening, error)

// Loosening is what policies let pass that those before them did not, of the recorded calls.
type Loosening struct {
	Compared int      `json:"compared"` // recorded calls that both judged
	Looser   int      `json:"looser"`
	Unknown  int      `json:"unknown"`  // calls that cannot be compared
	Examples []string `json:"examples"` // of what is looser, in words
}

// Words says it in one line, as the end of a sentence.
func (l Loosening) Words() string {
	text := fmt.Sprintf("loosens %d of %d recorded calls", l.Looser, l.Compared)
	if l.Unknown > 0 {
		text += fmt.Sprintf(", and %d cannot be compared", l.Unknown)
	}
	if len(l.Examples) > 0 {
		text += ": " + strings.Join(l.Examples, "; ")
	}
	return text
}

// Counts counts the calls that are judged; package recent does.
type Counts interface {
	// Judge calls judge once. Before is what was counted before the call; the rules are
	// those with a finding about it.
	Judge(c *tool.Call, judge func(before func() *input.Recent) (rules []string))
}

// Facts looks up the tool that a call names in its session, and says what the call would
// touch: it fills Tool, Spec, Facts and Settings as the request path does.
type Facts func(context.Context, *tool.Call) error

// Engine judges. It is safe for concurrent use.
type Engine struct {
	opts Options

	current atomic.Pointer[revision]
	reload  sync.Mutex // serialises reloads; decisions never wait for it

	mu      sync.Mutex // guards what follows
	failure *Failure
	loosens Loosening // of the last reload
}

// New loads everything that opts name. It returns an error when that does not
// compile.
func New(ctx context.Context, opts Options) (*Engine, error) {
	if opts.Profile == "" {
		opts.Profile = ProfileDeveloper
	}
	if opts.Deadline == 0 {
		opts.Deadline = DefaultDeadline
	}
	e := &Engine{opts: opts}
	r, err := load(ctx, opts, nil)
	if err != nil {
		return nil, err
	}
	e.current.Store(r)
	return e, nil
}

// Decide judges c by rules, callback and mode. The error is only ever the
// cancellation of ctx; every other failure is a deny by a core.* rule.
func (e *Engine) Decide(ctx context.Context, c *tool.Call) (tool.Decision, error) {
	d := e.judge(ctx, c)
	if err := ctx.Err(); err != nil {
		return coreDeny(d.Revision, "core.cancelled", err.Error()), err
	}
	return d, nil
}

func (e *Engine) judge(ctx context.Context, c *tool.Call) tool.Decision {
	r := e.current.Load()
	in, err := input.New(c)
	if err != nil {
		evidenceOf(ctx).set(nil)
		return coreDeny(r.id, "core.input", err.Error())
	}
	now := time.Now()
	seen := &evidence{revision: r, input: in, call: c.ID, at: now, first: now}
	evidenceOf(ctx).set(seen)
	d := e.decide(ctx, c, seen, e.opts.Recent, e.opts.CanUseTool)
	e.opts.Shadow.judged(c, seen)
	return d
}

// decide judges what seen has as its input, by its revision. It is the only judge: of calls,
// of recorded calls and of a shadow.
func (e *Engine) decide(ctx context.Context, c *tool.Call, seen *evidence, counts Counts, ask callback.CanUseTool,
) tool.Decision {
	r, in := seen.revision, seen.input
	done := budget.Of(ctx).Compute(ctx)
	err := e.findings(ctx, c, seen, counts)
	done()
	if err != nil {
		return coreDeny(r.id, coreRule(err), err.Error())
	}
	own, err := e.opinions(ctx, c, seen, ask)
	if err != nil {
		return coreDeny(r.id, "core.callback", err.Error())
	}
	seen.findings = append(seen.findings, own...)
	d := combine(r.id, seen.findings, modeEffect(in, e.opts.RelaxReads), in)
	seen.rewrites = seen.rewrites || d.Args != nil
	return d
}

// findings asks the rules, and counts the call.
func (e *Engine) findings(ctx context.Context, c *tool.Call, seen *evidence, counts Counts) (err error) {
	judge := func(before func() *input.Recent) []string {
		if seen.revision.counts {
			seen.input.Recent = before()
		}
		err = e.evaluate(ctx, seen)
		return seen.revision.counted(seen.findings)
	}
	if counts == nil {
		judge(func() *input.Recent { return new(input.Recent) })
		return err
	}
	counts.Judge(c, judge)
	return err
}

func (e *Engine) evaluate(ctx context.Context, seen *evidence) error {
	r, in := seen.revision, seen.input
	ask := func(in *input.Document) ([]Finding, error) {
		deadline := cmp.Or(seen.deadline, e.opts.Deadline)
		found, err := r.evaluate(ctx, in, deadline)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			// Retry once: where a virtual machine is stopped for a while, its processor time goes on.
			found, err = r.evaluate(ctx, in, deadline)
		}
		return found, err
	}
	findings, err := ask(in)
	if as := tool.As(in.Tool.Name); err == nil && as != "" {
		under := *in
		under.Tool.Name = as
		var more []Finding
		more, err = ask(&under)
		findings = append(findings, stricter(more, findings)...)
	}
	seen.findings = r.withoutDisabled(findings)
	return err
}

// stricter returns the findings that are not known, without those that allow or rewrite.
func stricter(findings, known []Finding) (more []Finding) {
	for _, f := range findings {
		if f.Effect != EffectAllow && f.Effect != EffectRewrite && !slices.ContainsFunc(known, func(k Finding) bool {
			return k.ID == f.ID && k.Effect == f.Effect && k.Subject == f.Subject
		}) {
			more = append(more, f)
		}
	}
	return more
}

// coreRule names the reserved rule for an evaluation that failed.
func coreRule(err error) string {
	var shape *shapeError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "core.timeout"
	case errors.As(err, &shape):
		return "core.shape"
	}
	return "core.evaluation"
}

// coreHints say what to do next where "sandboxd policy check" finds nothing: a rule
// can fail in these ways only while a call is judged.
var coreHints = map[string]string{
	"core.input":      "send the arguments as a JSON object",
	"core.evaluation": "sandboxd policy explain shows which rule fails on this call",
	"core.timeout":    "sandboxd policy bench measures the rules; the limit is 100 ms of processor time",
	"core.shape":      "correct the rule that makes this finding; docs/policies.md lists the fields of a finding",
	"core.rewrite":    "let one rule rewrite a call, with a patch that is an object",
	"core.mode":       "an operator can set the mode of the session",
	"core.callback":   "see that policy.canUseTool and policy.policies answer as docs/policies.md says",
	"core.cancelled":  "send the call again",
}

func coreDeny(revision, rule, msg string) tool.Decision {
	return tool.Decision{
		Verdict: tool.Deny, By: tool.ByCore, Revision: revision,
		Reasons: []tool.Reason{{
			Rule: rule, Code: "policy_error",
			Message: fmt.Sprintf("the policy could not be evaluated, so the call is denied: %s", msg),
			Hint:    coreHints[rule],
		}},
	}
}
