package replay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
)

// Suggestion is a policy that would have answered questions as people did. It is text; nothing
// puts it in force.
type Suggestion struct {
	List  string   `json:"list,omitempty"`  // of policy.rules: allow or deny
	Rules []string `json:"rules,omitempty"` // permission rules for that list

	Disable string `json:"disable,omitempty"` // rule that asks, for policy.disable
	File    string `json:"file,omitempty"`    // what asks instead, for a directory of policy.dirs
	Rego    string `json:"rego,omitempty"`

	Approved  bool     `json:"approved"`  // what people answered
	Questions int      `json:"questions"` // how often
	By        []string `json:"by"`        // who
	Example   string   `json:"example"`

	// With the policies in force and this one, of the recorded calls:
	Answered int      `json:"answered"` // of these questions are no longer asked
	Others   int      `json:"others"`   // calls that nobody was asked this about are judged otherwise too
	Such     []string `json:"such"`     // of those, in words
}

// Suggest is what finds suggestions.
type Suggest struct {
	Least   int            // how many questions must have been answered alike
	Since   time.Time      // of the questions
	Options policy.Options // of the policies in force
}

// Suggested is what came of it.
type Suggested struct {
	Questions   int          `json:"questions"` // that people answered
	Suggestions []Suggestion `json:"suggestions"`
	Left        []Unknown    `json:"left"` // questions that no suggestion is about
}

// question is one that a person answered.
type question struct {
	call     *policy.Recorded
	approved bool
	by       string
	rules    []candidate // that would answer it, the narrowest first
	covered  bool
}

// Of finds the narrowest rules for what people answered alike, and tries each on the recorded
// calls.
func (s Suggest) Of(ctx context.Context, records policy.Records) (Suggested, error) {
	out := Suggested{Suggestions: []Suggestion{}, Left: []Unknown{}}
	engine, err := policy.New(ctx, s.Options)
	if err != nil {
		return out, err
	}
	all, left, err := s.questions(ctx, records)
	if err != nil {
		return out, err
	}
	out.Questions = len(all)
	for _, n := range left {
		out.Questions += n
	}
	for _, d := range append(s.permissions(all), s.exceptions(all, engine.Status().Rules)...) {
		if err := s.try(ctx, records, engine, d); err != nil {
			return out, err
		}
		if d.Answered > 0 {
			out.Suggestions = append(out.Suggestions, *d.Suggestion)
			continue
		}
		left["the policies in force answer it already, or something else asks as well"] += len(d.of)
	}
	for _, q := range all {
		if !q.covered {
			left[s.why(q)]++
		}
	}
	for _, why := range slices.Sorted(maps.Keys(left)) {
		out.Left = append(out.Left, Unknown{why, left[why]})
	}
	return out, nil
}

// questions returns those that people answered, each once.
func (s Suggest) questions(ctx context.Context, records policy.Records) ([]*question, map[string]int, error) {
	var all []*question
	left, seen := map[string]int{}, map[string]bool{}
	records.Since = s.Since
	for r, err := range records.All(ctx) {
		if err != nil {
			return nil, nil, err
		}
		a := r.Answer
		if a == nil || !strings.HasPrefix(a.Question, "apr_") || seen[a.Question] || r.Decision.Verdict != tool.Ask {
			continue // nobody was asked, or an answer that was remembered
		}
		seen[a.Question] = true
		if a.Edited {
			left["the answer came with other arguments"]++
			continue
		}
		c, err := r.Again()
		if err != nil {
			left[err.Error()]++
			continue
		}
		all = append(all, &question{call: c, approved: a.Approved, by: a.By, rules: candidates(c.Input())})
	}
	return all, left, nil
}

// draft is a suggestion with its questions.
type draft struct {
	*Suggestion
	of []*question
}

func newDraft(s Suggestion, of []*question) draft {
	s.Approved, s.Questions, s.Example, s.Such = of[0].approved, len(of), of[0].call.What(), []string{}
	for _, q := range of {
		q.covered = true
		if !slices.Contains(s.By, q.by) {
			s.By = append(s.By, q.by)
		}
	}
	return draft{&s, of}
}

// permissions are permission rules: those that refuse, and those that answer what only a mode
// asked. Narrow rules come before wide ones, and a question counts for one rule.
func (s Suggest) permissions(all []*question) (out []draft) {
	groups := map[string][]*question{}
	by := map[string]candidate{}
	for _, q := range all {
		for _, c := range q.rules {
			key := strings.Join(c.rules, "\n")
			by[key], groups[key] = c, append(groups[key], q)
		}
	}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b].narrow, by[a].narrow), cmp.Compare(a, b))
	})
	for _, key := range keys {
		alike := func(q *question) bool { return q.approved == groups[key][0].approved }
		if !every(groups[key], alike) {
			continue
		}
		if groups[key][0].approved && by[key].denies {
			continue
		}
		if !groups[key][0].approved && len(by[key].rules) > 1 {
			continue // which of the commands was meant is not known, and each rule would deny alone
		}
		of := slices.DeleteFunc(slices.Clone(groups[key]), func(q *question) bool {
			return q.covered || q.approved && q.call.Decision.By != tool.ByMode
		})
		if len(of) < max(s.Least, 1) {
			continue
		}
		list := "deny"
		if of[0].approved {
			list = "allow"
		}
		out = append(out, newDraft(Suggestion{List: list, Rules: by[key].rules}, of))
	}
	return out
}

func every(list []*question, holds func(*question) bool) bool {
	return !slices.ContainsFunc(list, func(q *question) bool { return !holds(q) })
}

// exceptions are rules in Rego in place of rules that ask, with an exception for exactly what
// people allowed.
func (s Suggest) exceptions(all []*question, rules []policy.RuleInfo) (out []draft) {
	for _, info := range rules {
		groups := map[string][]*question{} // by what is excepted
		for _, q := range all {
			if what, ok := excepted(q, info.ID); ok {
				groups[what] = append(groups[what], q)
			}
		}
		var of []*question
		var texts []string
		for _, what := range slices.Sorted(maps.Keys(groups)) {
			g := groups[what]
			if len(g) >= s.Least && every(g, func(q *question) bool { return q.approved }) {
				texts, of = append(texts, what), append(of, g...)
			}
		}
		if len(of) == 0 || strings.HasPrefix(info.ID, "core.") {
			continue
		}
		file, text := exceptionRego(info, texts)
		out = append(out, newDraft(Suggestion{Disable: info.ID, File: file, Rego: text}, of))
	}
	return out
}

// why says why nothing is suggested about a question.
func (s Suggest) why(q *question) string {
	switch by := q.call.Decision.By; {
	case q.approved && by == tool.ByRule && strings.HasPrefix(q.call.Decision.Reasons[0].Rule, "ask "):
		return "a permission rule of yours asks: narrow it, or take it out"
	case q.approved && by != tool.ByMode && by != tool.ByRule:
		return "a hook, the tool or the settings ask, which no policy answers"
	case len(q.rules) > 0 && !q.approved && len(q.rules[0].rules) > 1:
		return "it is not known which command of the line was refused"
	case len(q.rules) == 0:
		return "no rule says exactly this call"
	}
	return fmt.Sprintf("fewer than %d were answered alike", s.Least)
}

// try judges the recorded calls with the suggestion added.
func (s Suggest) try(ctx context.Context, records policy.Records, engine *policy.Engine, d draft) error {
	dir, err := os.MkdirTemp("", "sandboxd-suggest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	with := s.Options
	switch d.List {
	case "allow":
		with.Rules.Allow = append(slices.Clone(with.Rules.Allow), d.Rules...)
	case "deny":
		with.Rules.Deny = append(slices.Clone(with.Rules.Deny), d.Rules...)
	default:
		with.Disable = append(slices.Clone(with.Disable), d.Disable)
		with.Dirs = append(slices.Clone(with.Dirs), dir)
		if err := os.WriteFile(filepath.Join(dir, d.File), []byte(d.Rego), 0o600); err != nil {
			return err
		}
	}
	tried, err := policy.New(ctx, with)
	if err != nil {
		return fmt.Errorf("the suggestion for %q does not load: %w", d.Example, err)
	}
	was := engine.Judge()
	report, err := Run{Was: &was, Now: tried.Judge(), Since: s.Since}.Of(ctx, records)
	if err != nil {
		return err
	}
	own := map[string]bool{}
	for _, q := range d.of {
		own[q.call.CallID] = true
	}
	for _, f := range report.Flips {
		if own[f.CallID] {
			d.Answered++
			continue
		}
		d.Others++
		if words := f.Words(); len(d.Such) < 3 && !slices.Contains(d.Such, words) {
			d.Such = append(d.Such, words)
		}
	}
	return nil
}
