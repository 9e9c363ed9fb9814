package policy

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/callback"
)

// saying is a callback that always says the same.
func saying(o *callback.Opinion, err error) callback.CanUseTool {
	return func(context.Context, string, json.RawMessage, callback.Context) (*callback.Opinion, error) {
		return o, err
	}
}

func TestCX72_ListPolicyAllowsAreAdvisory(t *testing.T) {
	list := []callback.ListPolicy{{Kind: "denylist", Tools: []string{"Bash"}}}
	for _, tt := range []struct {
		verdict, tool string
		want          tool.Verdict
	}{
		{"", "Edit", tool.Ask}, // the mode stays in force
		{callback.VerdictAdvisory, "Edit", tool.Ask},
		{callback.VerdictFinal, "Edit", tool.Allow},
		{"", "Bash", tool.Deny},
		{callback.VerdictFinal, "Bash", tool.Deny},
	} {
		e := newEngine(t, Options{Policies: list, Verdict: tt.verdict})
		if got := decide(t, e, newCall(t, tool.ModePlan, tt.tool, map[string]any{})); got.Verdict != tt.want {
			t.Errorf("policyVerdict %q, %s in mode plan: %s, want %s", tt.verdict, tt.tool, got.Verdict, tt.want)
		}
	}
}

func TestP08_P09_TheCallbackDecidesBeforeTheMode(t *testing.T) {
	for _, tt := range []struct {
		name    string
		opinion *callback.Opinion
		err     error
		mode    tool.Mode
		want    tool.Verdict
		by      tool.By
	}{
		{"P-08 allow runs unasked", callback.Allow(), nil, tool.ModeDefault, tool.Allow, tool.ByRule},
		{"P-08 no opinion leaves it to the mode", nil, nil, tool.ModeDefault, tool.Ask, tool.ByMode},
		{"P-09 deny", callback.Deny("no"), nil, tool.ModeBypassPermissions, tool.Deny, tool.ByRule},
		{"P-09 ask", callback.AskPerson("sure?"), nil, tool.ModeAuto, tool.Ask, tool.ByRule},
		{"an opinion without an effect denies", &callback.Opinion{}, nil, tool.ModeBypassPermissions, tool.Deny, tool.ByRule},
		{"a failure denies", callback.Allow(), errors.New("boom"), tool.ModeBypassPermissions, tool.Deny, tool.ByCore},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, Options{CanUseTool: saying(tt.opinion, tt.err)})
			d := decide(t, e, newCall(t, tt.mode, "Todo", map[string]any{}))
			if d.Verdict != tt.want || d.By != tt.by {
				t.Errorf("got %s by %s, want %s by %s", d.Verdict, d.By, tt.want, tt.by)
			}
			if tt.err != nil && d.Reasons[0].Rule != "core.callback" {
				t.Errorf("%+v, want a deny by core.callback", d.Reasons)
			}
		})
	}
}

func TestP11_ADenialHasAText(t *testing.T) {
	e := newEngine(t, Options{CanUseTool: saying(callback.Deny(""), nil)})
	d := decide(t, e, newCall(t, tool.ModeAuto, "Todo", map[string]any{}))
	if got, want := d.Reasons[0].Message, `Permission denied for tool "Todo"`; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestP10_ChangedInputIsARewriteOfTheCall(t *testing.T) {
	in := json.RawMessage(`{"file_path":"/src/safe"}`)
	e := newEngine(t, Options{CanUseTool: saying(callback.AllowWithInput(in), nil)})
	d := decide(t, e, fileCall(t, tool.ModeDefault, "Write", "/src/x"))
	if d.Verdict != tool.Allow || string(d.Args) != string(in) {
		t.Errorf("decision %s with args %s, want an allow with %s", d.Verdict, d.Args, in)
	}
	again := decide(t, e, fileCall(t, tool.ModeDefault, "Write", "/src/safe"))
	if again.Verdict != tool.Allow || again.Args != nil {
		t.Errorf("judged again: %s with args %s, want an allow and no further rewrite", again.Verdict, again.Args)
	}
}

func TestP19_P20_CallbackAndModeTakeTurns(t *testing.T) {
	opinion, asked := callback.Allow(), 0
	e := newEngine(t, Options{CanUseTool: func(context.Context, string, json.RawMessage, callback.Context) (*callback.Opinion, error) {
		asked++
		return opinion, nil
	}})
	verdict := func(mode tool.Mode) tool.Verdict {
		return decide(t, e, newCall(t, mode, "Todo", map[string]any{})).Verdict
	}
	if verdict(tool.ModeDefault) != tool.Allow {
		t.Error("the callback must have priority over the mode")
	}
	opinion = nil
	if verdict(tool.ModeDefault) != tool.Ask {
		t.Error("without an opinion the mode must decide")
	}
	if verdict(tool.ModeBypassPermissions) != tool.Allow {
		t.Error("another mode must hold from the next call on")
	}
	if asked != 3 {
		t.Errorf("the callback was asked %d times, want about every call", asked)
	}
}

func TestP18_APolicyIsACallback(t *testing.T) {
	e := newEngine(t, Options{CanUseTool: callback.ReadOnlyPolicy{}.Evaluate})
	if d := decide(t, e, fileCall(t, tool.ModeDefault, "Read", "/src/a")); d.Verdict != tool.Allow {
		t.Errorf("Read: %+v, want an allow", d)
	}
	if d := decide(t, e, fileCall(t, tool.ModeBypassPermissions, "Write", "/src/a")); d.Verdict != tool.Deny {
		t.Errorf("Write: %+v, want a deny", d)
	}
}
