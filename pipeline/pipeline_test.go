package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

const hello = `{"text":"hello"}`

func TestT15_H30_StagesRunInOrder(t *testing.T) {
	w := newWorld(tool.Spec{Results: tool.ResultAlways})
	w.answers = []tool.Approval{{Approved: true}}
	r := w.do(t, hello)
	if r.Status != tool.StatusSuccess || r.FormattedText != "hello" {
		t.Fatalf("got %+v", r)
	}
	want := "lookup resolve before uses policy begin run remember after ask result publish end"
	if got := w.path(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Any error between receive and run denies: nothing runs and the record says so.
func TestAFailureBeforeTheRunDenies(t *testing.T) {
	for _, stage := range []string{"lookup", "resolve", "before", "uses", "policy", "begin"} {
		t.Run(stage, func(t *testing.T) {
			w := newWorld(tool.Spec{})
			w.failAt = stage
			r := w.do(t, hello)
			if r.Status != tool.StatusError || r.Error == nil || w.ran() {
				t.Errorf("got %+v, ran %v", r, w.ran())
			}
			if !strings.HasSuffix(w.path(), "end") {
				t.Errorf("not recorded: %s", w.path())
			}
		})
	}
}

func TestTheZeroDecisionDenies(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.decide = func(*tool.Call) tool.Decision { return tool.Decision{} }
	if r := w.do(t, hello); r.Status != tool.StatusError || w.ran() {
		t.Errorf("got %+v, ran %v", r, w.ran())
	}
}

func TestAResultThatCannotBeRecordedIsWithheld(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.failAt = "end"
	r := w.do(t, hello)
	if r.Status != tool.StatusError || strings.Contains(r.FinalText, "hello") || r.FormattedText != "" || r.Data != nil {
		t.Errorf("released: %+v", r)
	}
	if len(w.stored) != 0 {
		t.Errorf("a variable still holds it: %v", w.stored)
	}
	if !slices.Equal(w.counted, []tool.Status{tool.StatusError}) {
		t.Errorf("counted as %v, want what became of it", w.counted)
	}
}

func TestT08_H22_ArgumentsAreCheckedAsHooksLeftThem(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.advice.Args = json.RawMessage(`{"text":"from the hook"}`)
	w.do(t, hello)
	if w.echo.got != "from the hook" {
		t.Errorf("the tool got %q", w.echo.got)
	}
	w = newWorld(tool.Spec{})
	w.advice.Args = json.RawMessage(`{"nonsense":1}`)
	if r := w.do(t, hello); r.Error == nil || r.Error.Code != "invalid_arguments" || w.ran() {
		t.Errorf("got %+v", r.Error)
	}
}

func TestP17_ARewriteIsJudgedAgainOnce(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.decide = func(c *tool.Call) tool.Decision {
		if strings.Contains(string(c.In.Args), "hello") {
			return tool.Decision{Verdict: tool.Allow, Args: json.RawMessage(`{"text":"rewritten"}`)}
		}
		return tool.Decision{Verdict: tool.Allow}
	}
	w.do(t, hello)
	if w.echo.got != "rewritten" {
		t.Errorf("the tool got %q", w.echo.got)
	}
	w = newWorld(tool.Spec{})
	w.decide = func(*tool.Call) tool.Decision {
		return tool.Decision{Verdict: tool.Allow, Args: json.RawMessage(hello)}
	}
	if r := w.do(t, hello); w.ran() || r.Decision.Reasons[0].Rule != "core.rewritten_twice" {
		t.Errorf("got %+v, ran %v", r.Decision, w.ran())
	}
}

func TestA04_A19_ARefusalReachesTheModel(t *testing.T) {
	w := newWorld(tool.Spec{Execution: tool.ExecAskAlways})
	w.answers = []tool.Approval{{Reason: "use a branch"}}
	r := w.do(t, hello)
	if r.Status != tool.StatusExecutionRejected || !strings.Contains(r.FinalText, "use a branch") || w.ran() {
		t.Errorf("got %+v, ran %v", r, w.ran())
	}
}

// TestA14_TheConfigurationBeatsTheTool: what a person is asked about is the
// operator's choice over the tool's own.
func TestA14_TheConfigurationBeatsTheTool(t *testing.T) {
	for _, tt := range []struct {
		name   string
		own    tool.Spec
		asks   catalog.Permission
		ran    bool
		status tool.Status
	}{
		{
			"an auto tool is asked about",
			tool.Spec{},
			catalog.Permission{Execution: tool.ExecAskAlways},
			false,
			tool.StatusExecutionRejected,
		},
		{
			"one that asks is not",
			tool.Spec{Execution: tool.ExecAskAlways},
			catalog.Permission{Execution: tool.ExecAuto},
			true, tool.StatusSuccess,
		},
		{
			"its results are held back",
			tool.Spec{},
			catalog.Permission{Results: tool.ResultAlways},
			true,
			tool.StatusResultRejected,
		},
		{"they are not", tool.Spec{Results: tool.ResultAlways}, catalog.Permission{Results: tool.ResultNever}, true, tool.StatusSuccess},
		{
			"nothing said keeps both",
			tool.Spec{Execution: tool.ExecAskAlways},
			catalog.Permission{Results: tool.ResultNever},
			false, tool.StatusExecutionRejected,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tt.own)
			p := w.pipeline()
			p.Tools.SetPermissions(map[string]catalog.Permission{
				"Echo": tt.asks, "Other": {Execution: tool.ExecAskAlways},
			})
			if r := p.Do(t.Context(), w.request(hello)); r.Status != tt.status || w.ran() != tt.ran {
				t.Errorf("got %s, ran %v: %s", r.Status, w.ran(), r.FinalText)
			}
		})
	}
}

// TestA16_OnErrorReviewsFailures: with on-error a person sees what failed, and
// only that, before the model does.
func TestA16_OnErrorReviewsFailures(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fails  string
		answer tool.Approval
		asked  bool
		status tool.Status
		text   string
	}{
		{"a success is not asked about", "", tool.Approval{}, false, tool.StatusSuccess, "hello"},
		{"a failure is released", "run", tool.Approval{Approved: true}, true, tool.StatusError, "run is broken"},
		{
			"a failure is refused", "run",
			tool.Approval{Reason: "it names a customer"},
			true, tool.StatusResultRejected,
			"it names a customer",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{Results: tool.ResultOnError})
			w.failAt, w.answers = tt.fails, []tool.Approval{tt.answer}
			r := w.do(t, hello)
			if r.Status != tt.status || !strings.Contains(r.FinalText, tt.text) ||
				slices.Contains(w.trace, "ask result") != tt.asked {
				t.Errorf("got %s %q: %s", r.Status, r.FinalText, w.path())
			}
			if tt.status == tool.StatusResultRejected && strings.Contains(fmt.Sprint(r), "broken") {
				t.Errorf("what was refused is in the result: %+v", r)
			}
		})
	}
}

func TestA10_NobodyToAskIsARefusal(t *testing.T) {
	w := newWorld(tool.Spec{Execution: tool.ExecAskAlways})
	if r := w.do(t, hello); r.Status != tool.StatusExecutionRejected || r.Error.Code != "no_approver" || w.ran() {
		t.Errorf("got %+v", r)
	}
}

// What was approved is what runs: a file that changes while a person thinks asks
// again, and three times are enough.
func TestAnApprovalBindsWhatWasShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script.sh")
	for _, tt := range []struct {
		name           string
		changes, asked int
		want           tool.Status
	}{
		{"unchanged", 0, 1, tool.StatusSuccess},
		{"changed once, asked twice", 1, 2, tool.StatusSuccess},
		{"changed always", 9, 3, tool.StatusError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			os.WriteFile(file, []byte("as shown"), 0o600)
			w := newWorld(tool.Spec{Execution: tool.ExecAskAlways})
			w.echo.uses.Paths = []guard.PathUse{{Raw: file, Path: file, Op: guard.Read}}
			for range 9 {
				w.answers = append(w.answers, tool.Approval{Approved: true})
			}
			w.decide = func(*tool.Call) tool.Decision { return tool.Decision{Verdict: tool.Allow} }
			p := w.pipeline()
			p.Approvals = changing{w, file, &tt.changes}
			r := p.Do(t.Context(), w.request(hello))
			if r.Status != tt.want || len(w.asked) != tt.asked {
				t.Errorf("got %s after %d questions, want %s after %d: %s", r.Status, len(w.asked), tt.want, tt.asked, r.FinalText)
			}
			if (r.Status == tool.StatusSuccess) != w.ran() {
				t.Errorf("%s, ran %v", r.Status, w.ran())
			}
			if tt.want == tool.StatusError && (r.Error == nil || r.Error.Code != "approval_stale") {
				t.Errorf("got %+v", r.Error)
			}
		})
	}
}

// changing writes another text into a file while the question waits.
type changing struct {
	*world
	file string
	left *int
}

func (c changing) Execution(ctx context.Context, call *tool.Call) (tool.Approval, error) {
	a, err := c.world.Execution(ctx, call)
	if *c.left > 0 {
		*c.left--
		os.WriteFile(c.file, []byte("changed "+strings.Repeat("x", *c.left)), 0o600)
	}
	return a, err
}

func TestAPersonsEditIsJudged(t *testing.T) {
	w := newWorld(tool.Spec{Execution: tool.ExecAskAlways})
	w.answers = []tool.Approval{{Approved: true, Args: json.RawMessage(`{"text":"edited"}`)}}
	w.do(t, hello)
	if w.echo.got != "edited" {
		t.Errorf("the tool got %q", w.echo.got)
	}
	w = newWorld(tool.Spec{Execution: tool.ExecAskAlways})
	w.answers = []tool.Approval{{Approved: true, Args: json.RawMessage(`{"text":"bad"}`)}}
	w.decide = func(c *tool.Call) tool.Decision {
		if strings.Contains(string(c.In.Args), "bad") {
			return tool.Decision{}
		}
		return tool.Decision{Verdict: tool.Allow}
	}
	if r := w.do(t, hello); w.ran() || r.Status != tool.StatusError {
		t.Errorf("an edit that is denied ran: %+v", r)
	}
}

func TestT31_CX22_A05_ARejectedResultLeavesNoTrace(t *testing.T) {
	w := newWorld(tool.Spec{Results: tool.ResultAlways})
	w.answers = []tool.Approval{{Reason: "secret"}}
	r := w.do(t, hello)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != tool.StatusResultRejected || strings.Contains(string(b), "hello") || len(w.stored) != 0 {
		t.Errorf("released: %s, stored %v", b, w.stored)
	}
}

func TestH27_APostHookMayWithholdTheResult(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.posts, w.post = true, tool.Advice{Block: true, Reason: "not for you"}
	r := w.do(t, hello)
	if r.Status != tool.StatusError || !strings.Contains(r.FinalText, "not for you") || len(w.stored) != 0 {
		t.Errorf("got %+v, stored %v", r, w.stored)
	}
}

// Whoever may withhold the result must see it before anybody has heard a part of it.
func TestOutputIsHeardAtOnceWhereNobodyMayWithholdIt(t *testing.T) {
	for _, tt := range []struct {
		name    string
		results tool.ResultPolicy
		posts   bool
		want    string
	}{
		{"nobody", "", false, "one"},
		{"nobody, as it says", tool.ResultNever, false, "one"},
		{"a person", tool.ResultAlways, false, ""},
		{"a person, if it fails", tool.ResultOnError, false, ""},
		{"a hook after calls", "", true, ""},
	} {
		w := newWorld(tool.Spec{Results: tt.results})
		w.posts, w.answers, w.echo.prints = tt.posts, []tool.Approval{{Approved: true}}, "one"
		heard, began := "", false
		req := w.request(hello)
		req.Emit = func(p tool.Progress) {
			heard += string(p.Output)
			began = began || p.Began != nil
		}
		if r := w.pipeline().Do(t.Context(), req); r.Status != tool.StatusSuccess || heard != tt.want || !began {
			t.Errorf("%s: %s, began %v, heard %q, want %q", tt.name, r.Status, began, heard, tt.want)
		}
	}
}

func TestH20_H32_ABlockLeavesNoHalfState(t *testing.T) {
	w := newWorld(tool.Spec{Execution: tool.ExecAskAlways})
	w.advice = tool.Advice{Block: true, Reason: "Bash blocked in production"}
	r := w.do(t, hello)
	if w.path() != "lookup resolve before end" || !strings.Contains(r.FinalText, "Bash blocked in production") {
		t.Errorf("%s: %s", w.path(), r.FinalText)
	}
}

func TestT16_AToolThatFailsOrPanicsIsAnError(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.failAt = "run"
	if r := w.do(t, hello); r.Status != tool.StatusError || r.FinalText != "Error executing tool Echo: run is broken" || len(w.stored) != 0 {
		t.Errorf("got %+v", r)
	}
	w = newWorld(tool.Spec{})
	w.echo.panics = true
	if r := w.do(t, hello); r.Status != tool.StatusError || r.Error.Code != "panic" || r.Error.Details != nil {
		t.Errorf("got %+v", r.Error)
	}
}

func TestT14_T07_UnknownToolsAreNotFound(t *testing.T) {
	w := newWorld(tool.Spec{})
	req := w.request(hello)
	req.Tool = "Nope"
	if r := w.pipeline().Do(t.Context(), req); r.Status != tool.StatusNotFound || w.path() != "lookup end" {
		t.Errorf("got %s: %s", r.Status, w.path())
	}
	w.session.Tools = map[string]bool{"Echo": false}
	if r := w.pipeline().Do(t.Context(), w.request(hello)); r.Status != tool.StatusNotFound || w.ran() {
		t.Errorf("a disabled tool: %s", r.Status)
	}
}

func TestT59_CancellationStopsACall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := newWorld(tool.Spec{})
	if r := w.pipeline().Do(ctx, w.request(hello)); r.Error == nil || r.Error.Code != "cancelled" || w.path() != "end" {
		t.Errorf("got %+v after %s", r.Error, w.path())
	}

	w = newWorld(tool.Spec{})
	w.echo.running = make(chan struct{})
	p := w.pipeline()
	done := make(chan tool.Result)
	go func() { done <- p.Do(t.Context(), w.request(hello)) }()
	<-w.echo.running
	id := onlyCall(p)
	if p.Cancel("somebody else", id) {
		t.Error("another account cancelled the call")
	}
	if state, ok := p.Call("a", id); !ok || !state.Running {
		t.Errorf("got %+v, %v", state, ok)
	}
	if !p.Cancel("a", id) {
		t.Error("the call was not found")
	}
	if r := <-done; r.Error == nil || r.Error.Code != "cancelled" {
		t.Errorf("got %+v", r.Error)
	}
	if state, ok := p.Call("a", id); !ok || state.Running {
		t.Errorf("got %+v, %v", state, ok)
	}
}

// TestHooksHearOfACallThatWasCancelled: it ran for a while, and what it says is
// shown; only the call was cancelled, not what follows from it.
func TestHooksHearOfACallThatWasCancelled(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.echo.running = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-w.echo.running
		cancel()
	}()
	r := w.pipeline().Do(ctx, w.request(hello))
	if r.Error == nil || r.Error.Code != "cancelled" || !strings.HasSuffix(w.path(), "run after publish end") {
		t.Errorf("got %+v after %s", r.Error, w.path())
	}
}

// TestASessionStaysInTheWorkspace: where a shell was left is where the next call of
// the session begins, unless it is no place for one.
func TestASessionStaysInTheWorkspace(t *testing.T) {
	for dir, want := range map[string]string{
		"/w/sub": "/w/sub", "/w": "/w", "": "/w", "/etc": "/w", "/": "/w", "/workshop": "/w",
	} {
		w := newWorld(tool.Spec{})
		w.echo.leaves.Dir = dir
		if r := w.do(t, hello); r.Status != tool.StatusSuccess {
			t.Errorf("%q: got %+v", dir, r.Error)
		}
		if w.session.Dir != want {
			t.Errorf("left in %q, the session is in %q, want %q", dir, w.session.Dir, want)
		}
	}
}

// TestTheAnswerSaysWhatTheHostCannotGive: weaker protection is never silent.
func TestTheAnswerSaysWhatTheHostCannotGive(t *testing.T) {
	w := newWorld(tool.Spec{})
	w.backend.report = sandbox.Report{Profile: "strict", Missing: []string{"cgroup2: not here"}}
	if r := w.do(t, hello); r.Sandbox == nil || !slices.Equal(r.Sandbox.Missing, []string{"cgroup2: not here"}) {
		t.Errorf("got %+v", r.Sandbox)
	}
}

// TestACallThatMadeADeniedPathFails: the cage took the file away, and nobody may
// go on as if it were there.
func TestACallThatMadeADeniedPathFails(t *testing.T) {
	for layer, fails := range map[string]bool{"denied_path_created": true, "netns": false} {
		w := newWorld(tool.Spec{})
		w.backend.report.Profile = "strict"
		w.echo.leaves.Denials = []sandbox.Denial{{Act: "making of /d/x", Layer: layer}}
		r := w.do(t, hello)
		if got := r.Error != nil && r.Error.Code == layer; got != fails {
			t.Errorf("%s: got %s %+v", layer, r.Status, r.Error)
		}
		if len(r.Sandbox.Denials) != 1 || fails && strings.Contains(r.FinalText, "hello") {
			t.Errorf("%s: got %+v", layer, r)
		}
	}
}

func onlyCall(p *Pipeline) string {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	for id := range p.running.calls {
		return id
	}
	return ""
}

// followed notes with which context calls are judged and end.
type followed struct {
	Policy
	judged, ended []any
}

type followedKey struct{}

func (f *followed) Follow(ctx context.Context) context.Context {
	return context.WithValue(ctx, followedKey{}, len(f.ended)+1)
}

func (f *followed) Decide(ctx context.Context, c *tool.Call) (tool.Decision, error) {
	f.judged = append(f.judged, ctx.Value(followedKey{}))
	return f.Policy.Decide(ctx, c)
}

func (f *followed) Judged(ctx context.Context, _ *tool.Call) {
	f.ended = append(f.ended, ctx.Value(followedKey{}))
}

func TestDecisionsKnowTheContextThatJudged(t *testing.T) {
	w := newWorld(tool.Spec{})
	p := w.pipeline()
	f := &followed{Policy: w}
	p.Policy, p.Decisions = f, f
	p.Do(t.Context(), w.request(hello))
	p.Decide(t.Context(), w.request(hello))
	p.Do(t.Context(), w.request(`{"text": 1}`)) // ends before the policies
	if fmt.Sprint(f.judged, f.ended) != "[1 2] [1 2 3]" {
		t.Errorf("judged with %v, ended with %v", f.judged, f.ended)
	}
}

// What nobody will run counts for no rule; what a client runs does.
func TestADryRunIsHypothetical(t *testing.T) {
	w := newWorld(tool.Spec{})
	var got []bool
	w.decide = func(c *tool.Call) tool.Decision {
		got = append(got, c.Request.Hypothetical)
		return tool.Decision{Verdict: tool.Allow, Revision: "r1"}
	}
	p, dry := w.pipeline(), w.request(hello)
	dry.DryRun = true
	p.Do(t.Context(), dry)
	p.Do(t.Context(), w.request(hello))
	p.Decide(t.Context(), w.request(hello))
	if !slices.Equal(got, []bool{true, false, false}) {
		t.Errorf("hypothetical: %v", got)
	}
}

func TestADryRunRunsNothing(t *testing.T) {
	w := newWorld(tool.Spec{})
	req := w.request(hello)
	req.DryRun = true
	if r := w.pipeline().Do(t.Context(), req); r.Decision.Verdict != tool.Allow ||
		w.path() != "lookup resolve before uses policy end" {
		t.Errorf("%s: %+v", w.path(), r)
	}
}

// An error says in which stage it began, also where a later one passes it on.
func TestAnErrorKeepsItsStage(t *testing.T) {
	for stage, err := range map[string]error{
		"lookup": &tool.Error{Code: "c", Stage: "lookup", Msg: "m"}, "run": &tool.Error{Code: "c", Msg: "m"},
	} {
		var c tool.Call
		fail(&c, "run", err)
		if c.Result.Error.Stage != stage {
			t.Errorf("stage %q, want %q", c.Result.Error.Stage, stage)
		}
	}
}
