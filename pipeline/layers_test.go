package pipeline

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// How verdicts of the layers combine: deny > ask of rule, tool, hook or floor >
// allow > mode.
func TestP27_A01_LayersCombine(t *testing.T) {
	ask := func(by tool.By) tool.Decision { return tool.Decision{Verdict: tool.Ask, By: by} }
	allow := tool.Decision{Verdict: tool.Allow, By: tool.ByRule}
	denied := guard.Uses{Paths: []guard.PathUse{{Raw: "/d/x", Path: "/d/x", Op: guard.Read}}}
	for _, tt := range []struct {
		name   string
		policy tool.Decision
		advice tool.Advice
		spec   tool.Spec
		uses   guard.Uses
		mode   tool.Mode
		want   tool.Verdict
		by     tool.By
	}{
		{name: "an allow allows", policy: allow, want: tool.Allow, by: tool.ByRule},
		{name: "a denied path beats an allow", policy: allow, uses: denied, want: tool.Deny, by: tool.ByFloor},
		{name: "nobody is asked about a denied path", policy: ask(tool.ByRule), uses: denied, want: tool.Deny, by: tool.ByFloor},
		{name: "a hook answers the mode", policy: ask(tool.ByMode), advice: tool.Advice{Allow: true}, want: tool.Allow, by: tool.ByHook},
		{
			name: "a hook does not answer a rule", policy: ask(tool.ByRule), advice: tool.Advice{Allow: true},
			want: tool.Ask, by: tool.ByRule,
		},
		{
			name: "a hook does not lift a deny", policy: tool.Decision{By: tool.ByRule}, advice: tool.Advice{Allow: true},
			want: tool.Deny, by: tool.ByRule,
		},
		{
			name: "a hook does not lift the floor", policy: allow, advice: tool.Advice{Allow: true}, uses: denied,
			want: tool.Deny, by: tool.ByFloor,
		},
		{
			name: "a hook does not answer ask-always", policy: allow, advice: tool.Advice{Allow: true},
			spec: tool.Spec{Execution: tool.ExecAskAlways}, want: tool.Ask, by: tool.ByTool,
		},
		{name: "a hook tightens", policy: allow, advice: tool.Advice{Ask: true}, want: tool.Ask, by: tool.ByHook},
		{
			name: "an asking tool asks in mode auto", policy: allow, spec: tool.Spec{Execution: tool.ExecAskAlways},
			want: tool.Ask, by: tool.ByTool,
		},
		{
			name: "P-06: dontAsk never asks", policy: allow, spec: tool.Spec{Execution: tool.ExecAskAlways},
			mode: "dontAsk", want: tool.Deny, by: tool.ByMode,
		},
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
	full := sandbox.Report{Isolation: "namespaces", Layers: []string{"userns", "seccomp"}}
	for _, tt := range []struct {
		name   string
		auto   bool
		report sandbox.Report
		mode   tool.Mode
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
	full := sandbox.Report{Isolation: "namespaces"}
	settings := guard.Settings{
		AllowedWritePaths: []string{"/w"}, DeniedPaths: []string{"/secret"}, DeniedCommands: []string{"x"},
		AutoAllowBashIfSandboxed: true,
	}
	yes := []tool.Approval{{Approved: true}}
	for _, tt := range []struct {
		name    string
		allowed bool
		mode    tool.Mode
		advice  tool.Advice
		uses    guard.Uses
		answers []tool.Approval
		status  tool.Status
		code    string
		wide    bool
	}{
		{
			name: "refused by default", uses: guard.Uses{Unconfined: true}, answers: yes, status: tool.StatusError,
			code: "unsandboxed_refused",
		},
		{
			name: "asked, and a person agrees", allowed: true, uses: guard.Uses{Unconfined: true}, answers: yes,
			status: tool.StatusSuccess, wide: true,
		},
		{
			name: "asked, and a person does not", allowed: true, uses: guard.Uses{Unconfined: true},
			answers: []tool.Approval{{Reason: "no"}}, status: tool.StatusExecutionRejected,
		},
		{
			name: "asked, and nobody is there", allowed: true, uses: guard.Uses{Unconfined: true},
			status: tool.StatusExecutionRejected, code: "no_approver",
		},
		{
			name: "no hook answers it", allowed: true, advice: tool.Advice{Allow: true},
			uses: guard.Uses{Unconfined: true}, status: tool.StatusExecutionRejected, code: "no_approver",
		},
		{
			name: "no mode answers it", allowed: true, mode: "bypassPermissions", uses: guard.Uses{Unconfined: true},
			status: tool.StatusExecutionRejected, code: "no_approver",
		},
		{
			name: "where nothing may be asked it is denied", allowed: true, mode: "dontAsk",
			uses: guard.Uses{Unconfined: true}, answers: yes, status: tool.StatusError, code: "unsandboxed_asked",
		},
		{name: "a secret stays denied", allowed: true, uses: guard.Uses{Unconfined: true, Paths: []guard.PathUse{{Path: "/secret/key"}}}, answers: yes, status: tool.StatusError, code: "path_denied"},
		{name: "not asked for, nothing is wider", allowed: true, uses: guard.Uses{}, status: tool.StatusSuccess},
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

// A refusal says where in the command line it is, if it is about one.
func TestARefusalSaysWhereItIs(t *testing.T) {
	at := guard.PathUse{Path: "/d/x", Op: guard.Read}
	at.At.Offset, at.At.End, at.At.Line, at.At.Col = 4, 8, 1, 5
	for name, use := range map[string]guard.PathUse{"": {Path: "/d/x", Op: guard.Read}, "1:5": at} {
		w := newWorld(tool.Spec{})
		w.settings.DeniedPaths, w.echo.uses.Paths = []string{"/d"}, []guard.PathUse{use}
		got := ""
		d := w.pipeline().Decide(t.Context(), w.request(`{"text":"x"}`)).Decision
		if len(d.Reasons) != 1 || d.Verdict != tool.Deny {
			t.Fatalf("got %+v", d)
		}
		if p := d.Reasons[0].At; p != nil {
			got = fmt.Sprintf("%d:%d", p.Line, p.Col)
		}
		if got != name {
			t.Errorf("it is at %q, want %q", got, name)
		}
	}
}
