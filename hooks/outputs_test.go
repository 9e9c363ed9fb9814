package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestH19_H20_H21_H24_H26_CX51_Outputs(t *testing.T) {
	for _, tt := range []struct {
		name string
		outs []Output
		want tool.Advice
	}{
		{"nothing", []Output{{}}, tool.Advice{}},
		{"H20 block with a message", []Output{{Block: true, Message: "Bash blocked in production"}}, tool.Advice{
			Block: true, Reason: "Bash blocked in production",
		}},
		{"H20 block without a text", []Output{{Block: true}}, tool.Advice{Block: true, Reason: defaultReason}},
		{"H21 decision block alone", []Output{{Decision: "block"}}, tool.Advice{Block: true, Reason: defaultReason}},
		{"H26 the reason is shown", []Output{{Block: true, Message: "no", Reason: "frozen"}}, tool.Advice{
			Block: true, Reason: "no: frozen",
		}},
		{"CX51 block and approve", []Output{{Block: true, Decision: "approve"}}, tool.Advice{
			Block: true, Reason: defaultReason,
		}},
		{
			"CX51 approve, permission deny",
			[]Output{{Decision: "approve", Permission: "deny", Reason: "x"}},
			tool.Advice{Block: true, Reason: "x"},
		},
		{"block beats a later approve", []Output{{Block: true, Reason: "first"}, {Decision: "approve"}}, tool.Advice{Block: true, Reason: "first"}},
		{"block beats an earlier approve and ask", []Output{{Decision: "approve"}, {Permission: "ask", Reason: "hm"}, {Block: true, Reason: "last"}}, tool.Advice{Block: true, Reason: "last"}},
		{"ask beats allow", []Output{{Permission: "allow"}, {Permission: "ask", Reason: "hm"}, {Permission: "allow"}}, tool.Advice{Ask: true, Reason: "hm"}},
		{"allow", []Output{{Decision: "approve"}}, tool.Advice{Allow: true}},
		{"defer says nothing", []Output{{Permission: "defer"}}, tool.Advice{}},
		{"H24 system messages in order", []Output{{SystemMessage: "a"}, {AdditionalContext: "b"}}, tool.Advice{Messages: []string{"a", "b"}}},
		{"a plain message is not for the model", []Output{{Message: "hi"}}, tool.Advice{}},
		{"a blocked call is not rewritten", []Output{{UpdatedInput: json.RawMessage(`{"a":1}`)}, {Block: true}}, tool.Advice{Block: true, Reason: defaultReason}},
		{"an unknown decision fails", []Output{{Decision: "maybe"}}, tool.Advice{
			Block: true, Reason: `hook "preToolUse#1" failed, and blocks when it fails`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var defs []Definition
			for _, o := range tt.outs {
				defs = append(defs, says(o))
			}
			got := before(t, newRegistry(t, PreToolUse, defs...), bash("ls"))
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestH22_CX66_UpdatedInputChains(t *testing.T) {
	add := func(word string) Definition {
		return Definition{Handler: func(_ context.Context, in Input) (*Output, error) {
			var args struct{ Command string }
			if err := json.Unmarshal(in.ToolInput, &args); err != nil {
				return nil, err
			}
			out, err := json.Marshal(map[string]string{"command": args.Command + word})
			return &Output{UpdatedInput: out}, err
		}}
	}
	c := bash("echo")
	a := before(t, newRegistry(t, PreToolUse, add(" 1"), add(" 2")), c)
	if string(a.Args) != `{"command":"echo 1 2"}` {
		t.Errorf("got %s", a.Args)
	}
	if string(c.In.Args) != `{"command":"echo"}` {
		t.Errorf("the call itself was changed: %s", c.In.Args)
	}
	for _, bad := range []string{`"text"`, `[1]`, `12`} {
		if a := before(t, newRegistry(t, PreToolUse, says(Output{UpdatedInput: json.RawMessage(bad)})), c); !a.Block {
			t.Errorf("arguments %s were accepted: %+v", bad, a)
		}
	}
}

// TestTheStricterHookWins: an allow by one hook is nothing beside another that asks
// or blocks, whichever comes first, and also where it was given for the session.
func TestTheStricterHookWins(t *testing.T) {
	allows, asks, blocks := says(Output{Permission: "allow"}), says(Output{Permission: "ask"}), says(Output{Block: true})
	forSession := says(Output{PermissionUpdate: &PermissionUpdate{Tool: "Bash", Behavior: "allow"}})
	for _, tt := range []struct {
		name                 string
		hooks                []Definition
		allowed, ask, denied bool
	}{
		{"one allows", []Definition{allows}, true, false, false},
		{"one asks", []Definition{asks, allows}, false, true, false},
		{"the other asks", []Definition{allows, asks}, false, true, false},
		{"one blocks", []Definition{blocks, allows, asks}, false, false, true},
		{"the other blocks", []Definition{asks, allows, blocks}, false, false, true},
		{"one allowed it for the session", []Definition{forSession}, true, false, false},
		{"one allowed it for the session, and another asks", []Definition{forSession, asks}, false, true, false},
		{"one allowed it for the session, and another blocks", []Definition{forSession, blocks}, false, false, true},
	} {
		a, err := newRegistry(t, PreToolUse, tt.hooks...).Before(t.Context(), bash("ls"))
		if err != nil || a.Allow != tt.allowed || a.Ask != tt.ask || a.Block != tt.denied {
			t.Errorf("%s: got %+v, %v", tt.name, a, err)
		}
	}
}

// Of two decisions the stricter one holds, a word that nobody defined counts as strict, and null is no input.
func TestWhichDecisionIsStricter(t *testing.T) {
	for _, tt := range [][3]string{
		{"", "allow", "allow"},
		{"allow", "", "allow"},
		{"defer", "allow", "defer"},
		{"ask", "defer", "ask"},
		{"ask", "deny", "deny"},
		{"deny", "maybe", "maybe"},
		{"maybe", "deny", "maybe"},
	} {
		if got := strictest(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%q and %q: got %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
	for input, want := range map[string]string{" null ": "", ` {"a":1} `: `{"a":1}`} {
		o := Output{UpdatedInput: []byte(input)}
		if err := o.check(); err != nil || string(o.UpdatedInput) != want {
			t.Errorf("%q became %q, %v", input, o.UpdatedInput, err)
		}
	}
	for _, o := range []Output{{UpdatedInput: []byte("[]")}, {Decision: "maybe"}, {Permission: "maybe"}} {
		if o.check() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
