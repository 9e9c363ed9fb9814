package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
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
func TestP24_AFailureBeforeTheRunDenies(t *testing.T) {
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

// How verdicts of the layers combine: deny > ask of rule, tool, hook or floor >
// allow > mode.
func TestP27_A01_LayersCombine(t *testing.T) {
	ask := func(by tool.By) tool.Decision { return tool.Decision{Verdict: tool.Ask, By: by} }
	allow := tool.Decision{Verdict: tool.Allow, By: tool.ByRule}
	denied := sandbox.Uses{Paths: []sandbox.PathUse{{Raw: "/d/x", Path: "/d/x", Op: sandbox.Read}}}
	for _, tt := range []struct {
		name   string
		policy tool.Decision
		advice tool.Advice
		spec   tool.Spec
		uses   sandbox.Uses
		mode   string
		want   tool.Verdict
		by     tool.By
	}{
		{name: "an allow allows", policy: allow, want: tool.Allow, by: tool.ByRule},
		{name: "a denied path beats an allow", policy: allow, uses: denied, want: tool.Deny, by: tool.ByFloor},
		{name: "nobody is asked about a denied path", policy: ask(tool.ByRule), uses: denied, want: tool.Deny, by: tool.ByFloor},
		{name: "a hook answers the mode", policy: ask(tool.ByMode), advice: tool.Advice{Allow: true}, want: tool.Allow, by: tool.ByHook},
		{name: "a hook does not answer a rule", policy: ask(tool.ByRule), advice: tool.Advice{Allow: true}, want: tool.Ask, by: tool.ByRule},
		{name: "a hook does not lift a deny", policy: tool.Decision{By: tool.ByRule}, advice: tool.Advice{Allow: true}, want: tool.Deny, by: tool.ByRule},
		{name: "a hook does not lift the floor", policy: allow, advice: tool.Advice{Allow: true}, uses: denied, want: tool.Deny, by: tool.ByFloor},
		{name: "a hook does not answer ask-always", policy: allow, advice: tool.Advice{Allow: true}, spec: tool.Spec{Execution: tool.ExecAskAlways}, want: tool.Ask, by: tool.ByTool},
		{name: "a hook tightens", policy: allow, advice: tool.Advice{Ask: true}, want: tool.Ask, by: tool.ByHook},
		{name: "an asking tool asks in mode auto", policy: allow, spec: tool.Spec{Execution: tool.ExecAskAlways}, want: tool.Ask, by: tool.ByTool},
		{name: "P-06: dontAsk never asks", policy: allow, spec: tool.Spec{Execution: tool.ExecAskAlways}, mode: "dontAsk", want: tool.Deny, by: tool.ByTool},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tt.spec)
			w.advice, w.echo.uses, w.settings.DeniedPaths = tt.advice, tt.uses, []string{"/d"}
			w.decide = func(*tool.Call) tool.Decision { return tt.policy }
			if tt.mode != "" {
				w.session.Mode = tt.mode
			}
			c := w.pipeline().Decide(t.Context(), w.request(hello))
			if c.Decision.Verdict != tt.want || c.Decision.By != tt.by {
				t.Errorf("got %s by %q, want %s by %q", c.Decision.Verdict, c.Decision.By, tt.want, tt.by)
			}
		})
	}
}

func TestX07_CX38_ConfinedCommandsAnswerOnlyTheMode(t *testing.T) {
	full := sandbox.Report{Rung: "namespaces", Layers: []string{"userns", "seccomp"}}
	for _, tt := range []struct {
		name   string
		auto   bool
		report sandbox.Report
		mode   string
		by     tool.By
		want   tool.Verdict
	}{
		{"confined and allowed to", true, full, "auto", tool.ByMode, tool.Allow},
		{"switched off", false, full, "auto", tool.ByMode, tool.Ask},
		{"nothing confines", true, sandbox.Report{}, "auto", tool.ByMode, tool.Ask},
		{"plan mode still asks", true, full, "plan", tool.ByMode, tool.Ask},
		{"a rule still asks", true, full, "auto", tool.ByRule, tool.Ask},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{Class: tool.ClassExec})
			w.backend.report, w.settings.AutoAllowBashIfSandboxed, w.session.Mode = tt.report, tt.auto, tt.mode
			w.decide = func(*tool.Call) tool.Decision { return tool.Decision{Verdict: tool.Ask, By: tt.by} }
			if got := w.pipeline().Decide(t.Context(), w.request(hello)).Decision.Verdict; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestX08_CX62_LeavingTheSandbox is refused, or asked whatever else would allow it;
// what then runs has wider settings that still deny what is denied.
func TestX08_CX62_LeavingTheSandbox(t *testing.T) {
	full := sandbox.Report{Rung: "namespaces"}
	settings := sandbox.Settings{AllowedWritePaths: []string{"/w"}, DeniedPaths: []string{"/secret"}, DeniedCommands: []string{"x"}, AutoAllowBashIfSandboxed: true}
	yes := []tool.Approval{{Approved: true}}
	for _, tt := range []struct {
		name    string
		allowed bool
		mode    string
		advice  tool.Advice
		uses    sandbox.Uses
		answers []tool.Approval
		status  tool.Status
		code    string
		wide    bool
	}{
		{name: "refused by default", uses: sandbox.Uses{Unconfined: true}, answers: yes, status: tool.StatusError, code: "unsandboxed_refused"},
		{name: "asked, and a person agrees", allowed: true, uses: sandbox.Uses{Unconfined: true}, answers: yes, status: tool.StatusSuccess, wide: true},
		{name: "asked, and a person does not", allowed: true, uses: sandbox.Uses{Unconfined: true}, answers: []tool.Approval{{Reason: "no"}}, status: tool.StatusExecutionRejected},
		{name: "asked, and nobody is there", allowed: true, uses: sandbox.Uses{Unconfined: true}, status: tool.StatusExecutionRejected, code: "no_approver"},
		{name: "no hook answers it", allowed: true, advice: tool.Advice{Allow: true}, uses: sandbox.Uses{Unconfined: true}, status: tool.StatusExecutionRejected, code: "no_approver"},
		{name: "no mode answers it", allowed: true, mode: "bypassPermissions", uses: sandbox.Uses{Unconfined: true}, status: tool.StatusExecutionRejected, code: "no_approver"},
		{name: "where nothing may be asked it is denied", allowed: true, mode: "dontAsk", uses: sandbox.Uses{Unconfined: true}, answers: yes, status: tool.StatusError, code: "unsandboxed_asked"},
		{name: "a secret stays denied", allowed: true, uses: sandbox.Uses{Unconfined: true, Paths: []sandbox.PathUse{{Path: "/secret/key"}}}, answers: yes, status: tool.StatusError, code: "path_denied"},
		{name: "not asked for, nothing is wider", allowed: true, uses: sandbox.Uses{}, status: tool.StatusSuccess},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{Class: tool.ClassExec})
			w.backend.report, w.settings, w.advice, w.echo.uses, w.answers = full, settings, tt.advice, tt.uses, tt.answers
			w.settings.AllowUnsandboxedCommands = tt.allowed
			if tt.mode != "" {
				w.session.Mode = tt.mode
			}
			r := w.do(t, hello)
			if r.Status != tt.status || tt.code != "" && r.Error.Code != tt.code {
				t.Errorf("got %s %+v, want %s %s", r.Status, r.Error, tt.status, tt.code)
			}
			if w.ran() != (tt.status == tool.StatusSuccess) {
				t.Errorf("it ran: %v", w.ran())
			}
			if !w.ran() {
				return
			}
			want := w.settings
			if tt.wide {
				want.AllowedReadPaths, want.AllowedWritePaths = nil, nil
			}
			if got := w.backend.settings; !reflect.DeepEqual(got, want) {
				t.Errorf("it ran under %+v, want %+v", got, want)
			}
		})
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
		asks   tool.Permission
		ran    bool
		status tool.Status
	}{
		{"an auto tool is asked about", tool.Spec{}, tool.Permission{Execution: tool.ExecAskAlways}, false, tool.StatusExecutionRejected},
		{"one that asks is not", tool.Spec{Execution: tool.ExecAskAlways}, tool.Permission{Execution: tool.ExecAuto}, true, tool.StatusSuccess},
		{"its results are held back", tool.Spec{}, tool.Permission{Results: tool.ResultAlways}, true, tool.StatusResultRejected},
		{"they are not", tool.Spec{Results: tool.ResultAlways}, tool.Permission{Results: tool.ResultNever}, true, tool.StatusSuccess},
		{"nothing said keeps both", tool.Spec{Execution: tool.ExecAskAlways}, tool.Permission{Results: tool.ResultNever}, false, tool.StatusExecutionRejected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tt.own)
			p := w.pipeline()
			p.Tools.SetPermissions(map[string]tool.Permission{"Echo": tt.asks, "Other": {Execution: tool.ExecAskAlways}})
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
		{"a failure is refused", "run", tool.Approval{Reason: "it names a customer"}, true, tool.StatusResultRejected, "it names a customer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{Results: tool.ResultOnError})
			w.failAt, w.answers = tt.fails, []tool.Approval{tt.answer}
			r := w.do(t, hello)
			if r.Status != tt.status || !strings.Contains(r.FinalText, tt.text) || slices.Contains(w.trace, "ask result") != tt.asked {
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
			w.echo.uses.Paths = []sandbox.PathUse{{Raw: file, Path: file, Op: sandbox.Read}}
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

func onlyCall(p *Pipeline) string {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	for id := range p.running.calls {
		return id
	}
	return ""
}

func TestADryRunRunsNothing(t *testing.T) {
	w := newWorld(tool.Spec{})
	req := w.request(hello)
	req.DryRun = true
	if r := w.pipeline().Do(t.Context(), req); r.Decision.Verdict != tool.Allow || w.path() != "lookup resolve before uses policy end" {
		t.Errorf("%s: %+v", w.path(), r)
	}
}
