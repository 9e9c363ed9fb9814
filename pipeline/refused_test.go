package pipeline

import (
	"slices"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Whoever says no, the hooks of permissionDenied hear of it once; a call that
// ran, or failed by itself, is none of them.
func TestH05_RefusalsAreTold(t *testing.T) {
	no := tool.Decision{Verdict: tool.Deny, By: tool.ByRule, Reasons: []tool.Reason{{Rule: "r", Message: "no"}}}
	ask := tool.Decision{Verdict: tool.Ask, By: tool.ByRule, Reasons: []tool.Reason{{Rule: "r", Message: "look"}}}
	for _, tt := range []struct {
		name    string
		arrange func(*world)
		args    string
		want    int
	}{
		{"allowed", func(*world) {}, `{"text":"x"}`, 0},
		{"a policy", func(w *world) { w.decide = func(*tool.Call) tool.Decision { return no } }, `{"text":"x"}`, 1},
		{"a hook", func(w *world) { w.advice.Block = true }, `{"text":"x"}`, 1},
		{"nobody to ask", func(w *world) { w.decide = func(*tool.Call) tool.Decision { return ask } }, `{"text":"x"}`, 1},
		{"wrong arguments", func(*world) {}, `{"txt":"x"}`, 0},
		{"a tool that fails", func(w *world) { w.failAt = "run" }, `{"text":"x"}`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tool.Spec{})
			tt.arrange(w)
			r := w.do(t, tt.args)
			if w.refused != tt.want {
				t.Errorf("told %d times, want %d: %+v", w.refused, tt.want, r)
			}
			if slices.Contains(r.SystemMessages, "somebody was told") != (tt.want == 1) {
				t.Errorf("messages %q", r.SystemMessages)
			}
		})
	}
}

// A remembered answer to the tool's own question must not answer for a hook that
// asks as well.
func TestQuestionOfAHookIsNotTheToolsOwn(t *testing.T) {
	w := newWorld(tool.Spec{Execution: tool.ExecAskOnce})
	w.advice = tool.Advice{Ask: true, Reason: "odd"}
	c := w.pipeline().Decide(t.Context(), w.request(`{"text":"x"}`))
	if c.Decision.Verdict != tool.Ask || c.Decision.By != tool.ByHook || len(c.Decision.Reasons) != 2 {
		t.Errorf("got %+v", c.Decision)
	}
}
