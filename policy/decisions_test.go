package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/permission"
)

func newDecisions(t *testing.T, o DecisionOptions) *Decisions {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: ":memory:"}, Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	d := NewDecisions(db, o)
	t.Cleanup(d.Close)
	return d
}

// keep judges a call and keeps its decision, as the pipeline does.
func keep(t *testing.T, d *Decisions, e *Engine, c *tool.Call, id string) {
	t.Helper()
	ctx := d.Follow(context.Background())
	var err error
	c.ID = id
	if c.Decision, err = e.Decide(ctx, c); err != nil {
		t.Fatal(err)
	}
	d.Judged(ctx, c)
}

func TestADecisionIsKeptWithWhatTheRulesSaw(t *testing.T) {
	e := newEngine(t, Options{Rules: permission.Rules{Allow: []string{"Bash"}}})
	d := newDecisions(t, DecisionOptions{Keep: time.Hour})
	keep(t, d, e, bash(t, tool.ModeAuto, "git push -f"), "call_1")
	r, err := d.Find(context.Background(), "a1", "call_1")
	if err != nil {
		t.Fatal(err)
	}
	if r.Tool != "Bash" || r.Session != "s1" || r.Mode != tool.ModeAuto || r.Decision.Verdict != tool.Ask ||
		r.Decision.Revision != e.Status().Revision {
		t.Errorf("record %+v", r)
	}
	if len(r.Findings) != 2 || r.Findings[0].ID != "allow Bash" || r.Findings[1].ID != "developer.git.force_push" {
		t.Errorf("findings %+v, want both in the order of their packages", r.Findings)
	}
	if !strings.Contains(string(r.Input), `"git push -f"`) {
		t.Errorf("input %s", r.Input)
	}
	if _, err := d.Find(context.Background(), "", "call_1"); err != nil {
		t.Errorf("for every account: %v", err)
	}
	if _, err := d.Find(context.Background(), "another", "call_1"); !errors.Is(err, ErrNoDecision) {
		t.Errorf("another account: %v, want ErrNoDecision", err)
	}
}

// TestTheLastJudgementOfACallIsKept: one that a client runs is judged when it is offered
// and when it starts. The second one used to cost all that were written with it.
func TestTheLastJudgementOfACallIsKept(t *testing.T) {
	e := newEngine(t, Options{})
	d := newDecisions(t, DecisionOptions{Keep: time.Hour, Failed: func(err error) { t.Error(err) }})
	keep(t, d, e, bash(t, tool.ModeAuto, "echo first"), "call_1")
	keep(t, d, e, bash(t, tool.ModeAuto, "echo second"), "call_1")
	keep(t, d, e, bash(t, tool.ModeAuto, "echo other"), "call_2")
	for id, want := range map[string]string{"call_1": "echo second", "call_2": "echo other"} {
		if r, err := d.Find(context.Background(), "a1", id); err != nil || !strings.Contains(string(r.Input), want) {
			t.Errorf("%s: got %s, %v, want %q", id, r.Input, err, want)
		}
	}
}

func TestAFailedEvaluationIsKeptToo(t *testing.T) {
	e := newEngine(t, Options{Dirs: []string{policyDir(t, acme(rule+` if to_number(input.tool.name) == 1`))}})
	d := newDecisions(t, DecisionOptions{Keep: time.Hour})
	keep(t, d, e, newCall(t, tool.ModeAuto, "Todo", map[string]any{}), "call_1")
	r, err := d.Find(context.Background(), "a1", "call_1")
	if err != nil || r.Decision.Verdict != tool.Deny || r.Decision.Reasons[0].Rule != "core.evaluation" || r.Input == nil {
		t.Errorf("record %+v, error %v; want the deny by core.evaluation with its input", r, err)
	}
}

// What a decision is explained by is that of the call alone: not of one before it
// that was judged with the same context, nor of a decision that no rule was asked for.
func TestEvidenceIsOfTheLastDecision(t *testing.T) {
	e := newEngine(t, Options{})
	ctx, seen := WithEvidence(t.Context())
	said := func(d tool.Decision) Explanation {
		t.Helper()
		x, err := seen.Explain(d)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	if x := said(tool.Decision{Revision: "r"}); x.Input != nil || x.Note == "" {
		t.Errorf("before any decision got %+v", x)
	}
	var d tool.Decision
	for _, line := range []string{"git push -f", "ls"} {
		var err error
		if d, err = e.Decide(ctx, bash(t, tool.ModeAuto, line)); err != nil {
			t.Fatal(err)
		}
	}
	if x := said(d); !strings.Contains(string(x.Input), `"ls"`) || len(x.Findings) != 0 {
		t.Errorf("got %s, %+v", x.Input, x.Findings)
	}
	if x := said(tool.Decision{By: tool.ByCore}); x.Input != nil || x.Note == "" {
		t.Errorf("of a decision without rules got %+v", x)
	}
	if _, err := e.Decide(t.Context(), bash(t, tool.ModeAuto, "id")); err != nil {
		t.Fatal(err)
	}
	if x := said(d); !strings.Contains(string(x.Input), `"ls"`) {
		t.Errorf("another context changed it: %s", x.Input)
	}
}

func TestOldDecisionsGo(t *testing.T) {
	now := time.Now()
	e := newEngine(t, Options{})
	d := newDecisions(t, DecisionOptions{Keep: 14 * 24 * time.Hour, Now: func() time.Time { return now }})
	keep(t, d, e, bash(t, tool.ModeAuto, "ls"), "call_old")
	d.Flush()
	now = now.Add(14*24*time.Hour - time.Second)
	d.prune()
	if _, err := d.Find(context.Background(), "a1", "call_old"); err != nil {
		t.Errorf("before its time: %v", err)
	}
	now = now.Add(2 * time.Second)
	d.prune()
	if _, err := d.Find(context.Background(), "a1", "call_old"); !errors.Is(err, ErrNoDecision) {
		t.Errorf("after its time: %v, want ErrNoDecision", err)
	}
}

func TestNothingIsKeptForZero(t *testing.T) {
	e := newEngine(t, Options{})
	d := newDecisions(t, DecisionOptions{})
	keep(t, d, e, bash(t, tool.ModeAuto, "ls"), "call_1")
	if _, err := d.Find(context.Background(), "a1", "call_1"); !errors.Is(err, ErrNoDecision) {
		t.Errorf("%v, want ErrNoDecision", err)
	}
}

func TestWhatIsKeptIsMasked(t *testing.T) {
	const own = `package sandboxd.audit.mask

mask contains "/session/home"

mask contains sprintf("/commands/%d/argv/1", [i]) if some i, _ in input.commands

mask contains "/not/there"
`
	dir := policyDir(t, own, acme(`findings contains {"id": "acme.say", "effect": "ask", "message": concat(" ", ["saw", input.params.api_key])} if input.params.api_key`))
	e := newEngine(t, Options{Dirs: []string{dir}})
	d := newDecisions(t, DecisionOptions{Keep: time.Hour, Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[REDACTED]") }})
	kept := func(id string, c *tool.Call) Record {
		t.Helper()
		keep(t, d, e, c, id)
		r, err := d.Find(context.Background(), "a1", id)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	text := func(r Record) string {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}

	got := text(kept("call_1",
		newCall(t, tool.ModeAuto, "Todo", map[string]any{"api_key": "abcdef-secret", "note": "hunter2 stays out"})))
	for _, secret := range []string{"abcdef-secret", "hunter2", "/home/u"} {
		if strings.Contains(got, secret) {
			t.Errorf("%q is kept: %s", secret, got)
		}
	}
	if !strings.Contains(got, `"api_key":"[masked]"`) || !strings.Contains(got, "saw [masked]") ||
		!strings.Contains(got, "[REDACTED] stays out") {
		t.Errorf("record %s", got)
	}
	if got := text(kept("call_2", bash(t, tool.ModeAuto, "echo topsecretword"))); strings.Contains(got, "topsecretword") {
		t.Errorf("a masked word is kept where another field repeats it: %s", got)
	}
}

// A pointer blanks what it names, and nothing if it names nothing.
func TestAPointerBlanksWhatItNames(t *testing.T) {
	for _, tt := range []struct {
		pointer, want string
		texts         []string
	}{
		{"/a", `{"a":"[masked]","b/~":["y","z"],"c":{"d":1}}`, []string{"x"}},
		{"/b~1~0", `{"a":"x","b/~":"[masked]","c":{"d":1}}`, []string{"y", "z"}},
		{"/b~1~0/0", `{"a":"x","b/~":["[masked]","z"],"c":{"d":1}}`, []string{"y"}},
		{"/c/d", `{"a":"x","b/~":["y","z"],"c":{"d":"[masked]"}}`, nil},
		{"/b~1~0/-1", "", nil},
		{"/b~1~0/2", "", nil},
		{"/b~1~0/-", "", nil},
		{"/b~1~0/0/x", "", nil},
		{"/a/x", "", nil},
		{"/x", "", nil},
		{"/", "", nil},
	} {
		const whole = `{"a":"x","b/~":["y","z"],"c":{"d":1}}`
		var doc any
		if err := json.Unmarshal([]byte(whole), &doc); err != nil {
			t.Fatal(err)
		}
		texts, found := blank(doc, strings.Split(tt.pointer, "/")[1:])
		slices.Sort(texts)
		got, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		want := cmp.Or(tt.want, whole)
		if found != (tt.want != "") || string(got) != want || !slices.Equal(texts, tt.texts) {
			t.Errorf("%s: %v %q %s, want %q %s", tt.pointer, found, texts, got, tt.texts, want)
		}
	}
}

// A rule may repeat an argument in each of its texts, and print it as Rego does.
func TestWhatRulesRepeatIsMaskedToo(t *testing.T) {
	const says = `findings contains {
	"id": "acme.say", "effect": "ask", "message": sprintf("saw %v", [input.params]),
	"hint": concat(" ", ["not", input.params.token]), "subject": input.params.token,
}`
	e := newEngine(t, Options{Dirs: []string{policyDir(t, acme(says))}})
	d := newDecisions(t, DecisionOptions{Keep: time.Hour})
	keep(t, d, e, newCall(t, tool.ModeAuto, "Todo", map[string]any{
		"a_token": "short", "token": "shorter-LONG", "secret": "one line\nPEMTEXT",
	}), "call_1")
	r, err := d.Find(context.Background(), "a1", "call_1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"short", "LONG", "PEMTEXT"} {
		if strings.Contains(string(b), secret) {
			t.Errorf("%q is kept: %s", secret, b)
		}
	}
}

// A patch is arguments, of which no mask knows.
func TestWhatARuleRewritesIsNotKept(t *testing.T) {
	const rewrites = `findings contains {
	"id": "acme.say", "effect": "rewrite", "message": "m", "patch": {"token": "patched-LONG"},
}`
	e := newEngine(t, Options{Dirs: []string{policyDir(t, acme(rewrites))}})
	d := newDecisions(t, DecisionOptions{Keep: time.Hour})
	keep(t, d, e, newCall(t, tool.ModeAuto, "Todo", map[string]any{"token": "old"}), "call_1")
	r, err := d.Find(context.Background(), "a1", "call_1")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(r); err != nil || len(r.Findings) != 1 || strings.Contains(string(b), "patched-LONG") {
		t.Errorf("kept %s, %v", b, err)
	}
}

func TestMasksNeverChangeAVerdict(t *testing.T) {
	plain := newEngine(t, Options{})
	dir := policyDir(t, "package sandboxd.audit.mask\n\nmask contains \"/commands\"\n\nmask contains \"/params\"\n")
	masking := newEngine(t, Options{Dirs: []string{dir}})
	for _, line := range []string{"git push -f", "ls", "bwrap sh"} {
		a, b := decide(t, plain, bash(t, tool.ModeAuto, line)), decide(t, masking, bash(t, tool.ModeAuto, line))
		if a.Verdict != b.Verdict || len(a.Reasons) != len(b.Reasons) {
			t.Errorf("%s: %v without masks, %v with", line, a, b)
		}
	}
}

// A mask that fails must not let through what it was written for.
func TestAMaskThatFailsLeavesTheInputOut(t *testing.T) {
	for name, body := range map[string]string{
		"a number":            "mask contains 1",
		"no pointer":          `mask contains "params"`,
		"an error":            `mask contains "/x" if to_number(input.tool.name) == 1`,
		"a conflict at a run": "mask contains \"/x\" if f(1) == 1\n\nf(_) := 1 if input.version > 0\n\nf(_) := 2 if input.version > 0",
	} {
		t.Run(name, func(t *testing.T) {
			says := acme(`findings contains {"id": "acme.x", "effect": "ask", "message": m} if {
	m := sprintf("runs %v", [input.commands[_].text])
}`)
			e := newEngine(t, Options{Dirs: []string{policyDir(t, "package sandboxd.audit.mask\n\n"+body+"\n", says)}})
			d := newDecisions(t, DecisionOptions{Keep: time.Hour})
			keep(t, d, e, bash(t, tool.ModeAuto, "echo topsecretword"), "call_1")
			r, err := d.Find(context.Background(), "a1", "call_1")
			if err != nil {
				t.Fatal(err)
			}
			if b, _ := json.Marshal(r); r.Input != nil || strings.Contains(string(b), "topsecretword") ||
				!strings.Contains(r.Note, "left out") {
				t.Errorf("record %s, want no input and a note", b)
			}
			if r.Decision.Verdict != tool.Ask {
				t.Errorf("verdict %s, want that of the mode", r.Decision.Verdict)
			}
		})
	}
}

func TestDecisionsSurviveClosing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.db")
	open := func() *store.DB {
		db, err := store.Open(context.Background(), store.Options{Path: file}, Schema())
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	d := NewDecisions(db, DecisionOptions{Keep: time.Hour})
	e := newEngine(t, Options{})
	for range 3 {
		keep(t, d, e, bash(t, tool.ModeAuto, "ls"), "call_"+t.Name()+time.Now().String())
	}
	keep(t, d, e, bash(t, tool.ModeAuto, "ls"), "call_last")
	d.Close()
	keep(t, d, e, bash(t, tool.ModeAuto, "ls"), "call_late") // must not hang
	db.Close()
	db = open()
	defer db.Close()
	d = NewDecisions(db, DecisionOptions{Keep: time.Hour})
	defer d.Close()
	if _, err := d.Find(context.Background(), "a1", "call_last"); err != nil {
		t.Error(err)
	}
}
