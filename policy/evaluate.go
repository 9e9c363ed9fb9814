package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// shapeError is a result that is not a list of findings.
type shapeError struct{ msg string }

func (e *shapeError) Error() string { return e.msg }

func shapef(format string, args ...any) error { return &shapeError{fmt.Sprintf(format, args...)} }

// evaluate asks all rules of the revision about in.
func (r *revision) evaluate(ctx context.Context, in *Input, deadline time.Duration) ([]Finding, error) {
	in.RuleKinds = r.index.kinds(in)
	return r.evaluateValue(ctx, in.value(), deadline)
}

func (r *revision) evaluateValue(ctx context.Context, in ast.Value, deadline time.Duration) ([]Finding, error) {
	// A timer instead of a context with a deadline, for which the engine would start
	// a goroutine per evaluation.
	start, cancel := time.Now(), topdown.NewCancel()
	defer time.AfterFunc(deadline, cancel.Cancel).Stop()
	defer context.AfterFunc(ctx, cancel.Cancel)()
	opts := []rego.EvalOption{
		rego.EvalParsedInput(in), rego.EvalSortSets(false), rego.EvalExternalCancel(cancel), rego.EvalGenerateJSON(asTerm),
		rego.EvalMetrics(metrics.NoOp()), rego.EvalVirtualCache(newCache()),
	}
	if r.coverage != nil {
		opts = append(opts, rego.EvalQueryTracer(r.coverage), rego.EvalRuleIndexing(false))
	}
	rs, err := r.query.Eval(ctx, opts...)
	if time.Since(start) > deadline || topdown.IsCancel(err) {
		return nil, fmt.Errorf("evaluation took longer than %s: %w", deadline, context.DeadlineExceeded)
	}
	if err != nil {
		return nil, err
	}
	if len(rs) != 1 || len(rs[0].Expressions) != 1 {
		return nil, shapef("the rules are undefined for this call")
	}
	return r.findings(rs[0].Expressions[0].Value)
}

// asTerm keeps results as the engine has them: nearly all are empty, and are not
// worth a conversion.
func asTerm(t *ast.Term, _ *rego.EvalContext) (any, error) { return t, nil }

// findings reads the result of the query: one set per package.
func (r *revision) findings(result any) ([]Finding, error) {
	term, _ := result.(*ast.Term)
	if term == nil {
		return nil, shapef("the rules gave %T, want a term", result)
	}
	sets, ok := term.Value.(*ast.Array)
	if !ok || sets.Len() != len(r.packages) {
		return nil, shapef("the rules gave %v, want one set per package", term)
	}
	var out []Finding
	for i, pkg := range r.packages {
		set, ok := sets.Elem(i).Value.(ast.Set)
		if !ok {
			return nil, shapef("%s.findings is not a set", pkg)
		}
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
		case "obligations", "patch":
			b, merr := json.Marshal(v)
			if merr != nil {
				return Finding{}, merr
			}
			if k == "patch" {
				f.Patch = b
			} else if uerr := strictJSON(b, &f.Obligations); uerr != nil {
				return Finding{}, fmt.Errorf("obligations: %w", uerr)
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
	}
	switch f.Effect {
	case EffectDeny, EffectAsk, EffectRewrite, EffectAllow:
		return f, nil
	}
	return Finding{}, fmt.Errorf("finding %s has the effect %q: want deny, ask, rewrite or allow", f.ID, f.Effect)
}
