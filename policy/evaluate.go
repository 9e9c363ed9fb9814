package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/policy/input"
)

// shapeError is a result that is not a list of findings.
type shapeError struct{ msg string }

func (e *shapeError) Error() string { return e.msg }

func shapef(format string, args ...any) error { return &shapeError{fmt.Sprintf(format, args...)} }

// patience is how many times its deadline an evaluation may take by the clock, on a machine that is busy.
const patience = 30

// evaluation is one pass over the rules within its time: the processor time of the thread that began it.
// A clock on the wall would deny calls where the machine is busy.
type evaluation struct {
	ctx      context.Context
	deadline time.Duration
	used     func() time.Duration
	cancel   topdown.Cancel
	coverage *cover.Cover // nil except in Test
}

// begin starts the clock and keeps the goroutine on its thread; end must be called, by the same one. A timer is
// used instead of a context with a deadline, for which the engine would start a goroutine per evaluation.
func begin(ctx context.Context, deadline time.Duration) (e evaluation, end func()) {
	runtime.LockOSThread()
	e = evaluation{ctx: ctx, deadline: deadline, used: threadTime(), cancel: topdown.NewCancel()}
	start := time.Now()
	var timer *time.Timer
	timer = time.AfterFunc(math.MaxInt64, func() {
		left := deadline - e.used()
		if left <= 0 || time.Since(start) > patience*deadline {
			e.cancel.Cancel()
			return
		}
		timer.Reset(left)
	})
	timer.Reset(deadline)
	unhook := context.AfterFunc(ctx, e.cancel.Cancel)
	return e, func() { timer.Stop(); unhook(); runtime.UnlockOSThread() }
}

// threadTime tells, to any thread, the time that the calling one has used since now.
func threadTime() func() time.Duration {
	clock := int32(^unix.Gettid()<<3 | 6) // CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED: clock_getcpuclockid(3)
	now := func() time.Duration {
		var t unix.Timespec
		if unix.ClockGettime(clock, &t) != nil {
			return math.MaxInt64 // the thread is gone: whatever is asked has had its time
		}
		return time.Duration(t.Nano())
	}
	start := now()
	return func() time.Duration { return now() - start }
}

// evaluate asks all rules of the revision about in.
func (r *revision) evaluate(ctx context.Context, in *input.Document, deadline time.Duration) ([]Finding, error) {
	in.RuleKinds = r.index.Kinds(in)
	e, end := begin(ctx, deadline)
	defer end()
	e.coverage = r.coverage
	var found []Finding
	for _, p := range r.packages {
		if e.coverage == nil && !p.prefilter.admits(in) {
			continue
		}
		doc := in.Value(p.reads)
		if r.replaces {
			doc = input.Whole(doc)
		}
		more, err := e.ask(p, doc)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	more, err := r.workspaceFindings(e, in)
	return append(found, more...), err
}

// ask gives the findings of one package.
func (e evaluation) ask(p judgedPackage, in ast.Value) ([]Finding, error) {
	opts := []rego.EvalOption{
		rego.EvalParsedInput(in), rego.EvalSortSets(false), rego.EvalExternalCancel(e.cancel),
		rego.EvalGenerateJSON(asTerm),
		rego.EvalMetrics(metrics.NoOp()),
	}
	if e.coverage != nil {
		opts = append(opts, rego.EvalQueryTracer(e.coverage), rego.EvalRuleIndexing(false))
	}
	rs, err := p.query.Eval(e.ctx, opts...)
	if e.used() > e.deadline || topdown.IsCancel(err) {
		return nil, fmt.Errorf("evaluation took more than %s of processor time: %w", e.deadline,
			context.DeadlineExceeded)
	}
	if err != nil {
		return nil, err
	}
	if len(rs) != 1 || len(rs[0].Expressions) != 1 {
		return nil, shapef("%s.findings is undefined for this call", p.name)
	}
	return readFindings(rs[0].Expressions[0].Value, p.name)
}

// asTerm keeps results in the types of OPA: nearly all are empty, so that to convert
// them would be wasted.
func asTerm(t *ast.Term, _ *rego.EvalContext) (any, error) { return t, nil }

// readFindings reads what a package gave.
func readFindings(result any, pkg string) ([]Finding, error) {
	term, _ := result.(*ast.Term)
	if term == nil {
		return nil, shapef("%s.findings is %T, want a term", pkg, result)
	}
	set, ok := term.Value.(ast.Set)
	if !ok {
		return nil, shapef("%s.findings is not a set", pkg)
	}
	var out []Finding
	for _, t := range set.Slice() {
		f, err := readFinding(t)
		if err == nil && strings.HasPrefix(f.ID, "core.") && !ownPackage(pkg, "core") {
			err = fmt.Errorf("the id %s is reserved", f.ID)
		}
		if err != nil {
			return nil, shapef("%s: %v", pkg, err)
		}
		out = append(out, f)
	}
	return out, nil
}

func readFinding(t *ast.Term) (Finding, error) {
	raw, err := ast.JSON(t.Value)
	if err != nil {
		return Finding{}, err
	}
	return newFinding(raw)
}

// newFinding reads one finding strictly: a rule that misspells a field must not
// lose what it wanted to say.
func newFinding(raw any) (Finding, error) {
	m, ok := raw.(map[string]any)
	if !ok {
		return Finding{}, fmt.Errorf("a finding is %T, want an object", raw)
	}
	var f Finding
	var err error
	text := func(key string, v any) string {
		s, ok := v.(string)
		if !ok && err == nil {
			err = fmt.Errorf("field %q of a finding is not text", key)
		}
		return s
	}
	for k, v := range m {
		switch k {
		case "id":
			f.ID = text(k, v)
		case "effect":
			f.Effect = Effect(text(k, v))
		case "message":
			f.Message = text(k, v)
		case "hint":
			f.Hint = text(k, v)
		case "subject":
			f.Subject = text(k, v)
		case "undoable":
			is, ok := v.(bool)
			if !ok {
				return Finding{}, errors.New(`field "undoable" of a finding is not true or false`)
			}
			f.Undoable = is
		case "obligations", "patch":
			b, merr := json.Marshal(v)
			if merr != nil {
				return Finding{}, merr
			}
			if k == "patch" {
				if _, ok := v.(map[string]any); !ok {
					return Finding{}, fmt.Errorf("the patch of a finding is %s, want an object", b)
				}
				f.Patch = b
			} else if f.Obligations, merr = newObligations(v, b); merr != nil {
				return Finding{}, fmt.Errorf("obligations: %w", merr)
			}
		default:
			return Finding{}, fmt.Errorf("unknown field %q in a finding", k)
		}
	}
	if err != nil {
		return Finding{}, err
	}
	switch {
	case f.ID == "":
		return Finding{}, errors.New("a finding has no id")
	case f.Message == "":
		return Finding{}, fmt.Errorf("finding %s has no message", f.ID)
	case f.Effect == EffectRewrite && f.Patch == nil:
		return Finding{}, fmt.Errorf("finding %s rewrites without a patch", f.ID)
	case f.Effect != EffectRewrite && f.Patch != nil:
		return Finding{}, fmt.Errorf("finding %s has a patch but the effect %q", f.ID, f.Effect)
	case f.Undoable && f.Effect != EffectAsk:
		return Finding{}, fmt.Errorf("finding %s is undoable and has the effect %q, not ask", f.ID, f.Effect)
	}
	switch f.Effect {
	case EffectDeny, EffectAsk, EffectRewrite, EffectAllow, EffectCount:
		return f, nil
	}
	return Finding{}, fmt.Errorf("finding %s has the effect %q: want deny, ask, rewrite, allow or count", f.ID,
		f.Effect)
}

// newObligations reads obligations, none of which may be lost: null and a time of less
// than a second would be no obligation.
func newObligations(raw any, b []byte) (o guard.Obligations, err error) {
	m, ok := raw.(map[string]any)
	if !ok {
		return o, fmt.Errorf("they are %s, want an object", b)
	}
	for k, v := range m {
		if v == nil {
			return o, fmt.Errorf("%s is null", k)
		}
	}
	if err := strictjson.Decode(b, &o); err != nil {
		return o, err
	}
	if _, ok := m["wall_seconds"]; ok && o.WallSeconds < 1 {
		return o, fmt.Errorf("wall_seconds is %v, want 1 or more", m["wall_seconds"])
	}
	return o, nil
}
