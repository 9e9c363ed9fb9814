package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/util"

	"github.com/sandboxd/sandboxd/policy/input"
)

// maskPackage says what the record of decisions leaves out; no verdict asks it.
const maskPackage = "sandboxd.audit.mask"

// masked stands in the record for what is left out.
const masked = "[masked]"

// masksOf gives JSON pointers into the input.
func (r *revision) masksOf(ctx context.Context, in ast.Value, deadline time.Duration) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	rs, err := r.masks.Eval(ctx, rego.EvalParsedInput(in), rego.EvalMetrics(metrics.NoOp()))
	if err != nil {
		return nil, err
	}
	if len(rs) != 1 || len(rs[0].Expressions) != 1 {
		return nil, shapef("%s.mask is undefined", maskPackage)
	}
	list, ok := rs[0].Expressions[0].Value.([]any)
	if !ok {
		return nil, shapef("%s.mask is no set", maskPackage)
	}
	var out []string
	for _, v := range list {
		s, ok := v.(string)
		if !ok || !strings.HasPrefix(s, "/") {
			return nil, shapef("%s.mask has %v, want a JSON pointer such as /params/token", maskPackage, v)
		}
		out = append(out, s)
	}
	return out, nil
}

// keptInput is an input as it may be written.
type keptInput struct {
	doc    json.RawMessage
	redact func(string) string // for messages
	whole  bool                // nothing of the input was changed
}

// document returns the input as it may be written: without what the masks name, also where other fields or messages
// repeat it, and every text redacted. An error means that nothing may be written.
func (r *revision) document(ctx context.Context, in *input.Document, redact func(string) string) (keptInput, error) {
	fields := in.Fields(nil)
	var seen ast.Value = ast.LazyObject(fields)
	if r.replaces {
		seen = input.Whole(seen)
	}
	masks, err := r.masksOf(ctx, seen, exampleDeadline)
	if err != nil {
		return keptInput{}, fmt.Errorf("mask the input: %w", err)
	}
	doc, err := decoded(fields)
	if err != nil {
		return keptInput{}, err
	}
	w := keptInput{whole: true}
	var gone []string
	for _, m := range masks {
		texts, found := blank(doc, strings.Split(m, "/")[1:])
		w.whole = w.whole && !found
		for _, text := range texts {
			if len(text) >= minMasked {
				quoted := strconv.Quote(text) // as a rule that prints a whole object has it
				gone = append(gone, text, quoted[1:len(quoted)-1])
			}
		}
	}
	slices.SortFunc(gone, func(a, b string) int { return len(b) - len(a) }) // one may begin with another
	pairs := make([]string, 0, 2*len(gone))
	for _, text := range gone {
		pairs = append(pairs, text, masked)
	}
	repeats := strings.NewReplacer(pairs...)
	w.redact = func(s string) string { return redact(repeats.Replace(s)) }
	w.doc, err = json.Marshal(redacted(doc, func(s string) string {
		said := w.redact(s)
		w.whole = w.whole && said == s
		return said
	}))
	return w, err
}

// decoded returns a copy of fields as decoded JSON.
func decoded(fields any) (any, error) {
	switch v := fields.(type) {
	case ast.Value:
		return ast.JSON(v)
	case json.RawMessage:
		var doc any
		err := util.UnmarshalJSON(v, &doc)
		return doc, err
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return list, nil
	case map[string]any:
		doc := make(map[string]any, len(v))
		for k, field := range v {
			var err error
			if doc[k], err = decoded(field); err != nil {
				return nil, err
			}
		}
		return doc, nil
	}
	return fields, nil
}

// minMasked is the length below which a masked text is not looked for elsewhere:
// it would blank out ordinary words.
const minMasked = 4

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// blank replaces what a pointer names, and gives the texts that were there. One that names
// nothing changes nothing.
func blank(doc any, path []string) (texts []string, found bool) {
	key := unescape.Replace(path[0])
	switch v := doc.(type) {
	case map[string]any:
		old, ok := v[key]
		if !ok {
			return nil, false
		}
		if len(path) > 1 {
			return blank(old, path[1:])
		}
		v[key] = masked
		return stringsIn(old), true
	case []any:
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(v) {
			return nil, false
		}
		if len(path) > 1 {
			return blank(v[i], path[1:])
		}
		old := v[i]
		v[i] = masked
		return stringsIn(old), true
	}
	return nil, false
}

func stringsIn(v any) (out []string) {
	redacted(v, func(s string) string {
		out = append(out, s)
		return s
	})
	return out
}

func redacted(v any, redact func(string) string) any {
	switch v := v.(type) {
	case string:
		return redact(v)
	case []any:
		for i := range v {
			v[i] = redacted(v[i], redact)
		}
	case map[string]any:
		for k := range v {
			v[k] = redacted(v[k], redact)
		}
	}
	return v
}
