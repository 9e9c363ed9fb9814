package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
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

// TestAnAnswerIsNotReadAsAMessage (H11, H19): what may hold a block does not pass as text, nor by a field that nobody
// reads. What a program prints for people still passes.
func TestH11_H19_AnAnswerIsNotReadAsAMessage(t *testing.T) {
	const block = `{"block":true,"reason":"no"}`
	for _, tt := range []struct{ name, text, command, url string }{
		{"an object", block, "block", "block"},
		{"a byte order mark", "\ufeff" + block, "block", "block"},
		{"a mark behind blanks", " \n\ufeff \n" + block + "\n", "block", "block"},
		{"a mark alone", "\ufeff", "nothing", "nothing"},
		{"nothing", "\n", "nothing", "nothing"},
		{"NUL", "\x00" + block, "fails", "fails"},
		{"a record separator", "\x1e" + block, "fails", "fails"},
		{"a sequence for terminals", "\x1b[0m" + block, "fails", "fails"},
		{"a title for terminals", "\x1b]0;t\x07" + block, "fails", "fails"},
		{"a mark of no width", "\u200b" + block, "fails", "fails"},
		{"UTF-16", strings.Join(strings.Split(block, ""), "\x00"), "fails", "fails"},
		{"UTF-16, big-endian", "\x00" + strings.Join(strings.Split(block, ""), "\x00"), "fails", "fails"},
		{"a list", "[" + block + "]", "fails", "fails"},
		{"half a list", "[\n" + block, "fails", "fails"},
		{"a text of JSON", `"block"`, "fails", "fails"},
		{"null", "null", "fails", "fails"},
		{"false", "false", "fails", "fails"},
		{"a count", "12\n", "says", "fails"},
		{"a page", "<html>please log in</html>", "says", "fails"},
		{"a prefix against scripts", ")]}',\n" + block, "fails", "fails"},
		{"a line in front", "starting\n" + block, "fails", "fails"},
		{"a line in front of an indented one", "starting\n{\n \"block\": true\n}\nended", "fails", "fails"},
		{"a line in front of an ask", "starting\n" + `{"permissionDecision":"ask"}`, "fails", "fails"},
		{"a line in front of other arguments", "starting\n" + `{"updatedInput":{"command":"ls"}}`, "fails", "fails"},
		{"an object in front that says nothing", "starting\n{}" + block, "fails", "fails"},
		{"half an object in front", "starting\n{\"a\":\n" + block, "fails", "fails"},
		{"many beginnings", "x\n" + strings.Repeat("{\"a\":\n", 9000), "fails", "fails"},
		{"a line in front of an allow", "starting\n" + `{"decision":"approve"}`, "says", "fails"},
		{"text", "all is well", "says", "fails"},
		{"text in brackets", "[info] all {is} well", "says", "fails"},
		{"text in colour", "\x1b[31m[info]\x1b[0m all is well", "says", "fails"},
		{"a program", "int main()\n{\n\treturn 0;\n}", "says", "fails"},
		{"a log of objects", "x\n{\"level\":\"info\"}\n{\"level\":\"warn\"}", "says", "fails"},
		{"the input itself", `{"event":"preToolUse","toolName":"Bash","tool_name":"Bash","toolInput":{"block":true}}`, "nothing", "nothing"},
		{"two decisions", `{"decision":{"behavior":"deny","message":"a"},"hookSpecificOutput":{"decision":{"behavior":"allow","message":"b"}}}`, "block", "block"},
		{"two decisions, the other way round", `{"decision":{"behavior":"allow"},"hookSpecificOutput":{"decision":{"behavior":"deny"}}}`, "block", "block"},
		{"two decisions, one of which asks", `{"decision":{"behavior":"ask"},"hookSpecificOutput":{"decision":{"behavior":"allow"}}}`, "ask", "ask"},
		{"two words", `{"decision":"approve","hookSpecificOutput":{"decision":"block"}}`, "fails", "fails"},
		{"a decision without a word", `{"decision":{"block":true}}`, "fails", "fails"},
		{"a canUseTool answer", `{"behavior":"deny","message":"no"}`, "block", "block"},
		{"a canUseTool answer that asks", `{"behavior":"ask"}`, "ask", "ask"},
		{"an unknown behavior", `{"behavior":"maybe"}`, "fails", "fails"},
		{"Cursor", `{"permission":"deny","userMessage":"no"}`, "block", "block"},
		{"snake case", `{"permission_decision":"deny"}`, "block", "block"},
		{"snake case in all", `{"hook_specific_output":{"permission_decision":"deny"}}`, "block", "block"},
		{"a long s", `{"permi\u017f\u017fion_decision":"deny"}`, "block", "block"},
		{"two spellings", `{"permission_decision":"deny","permissionDecision":"allow"}`, "fails", "fails"},
		{"other arguments in snake case", `{"updated_input":{"command":"ls"}}`, "rewrites", "rewrites"},
		{"other arguments beside null", `{"updatedInput":null,"hookSpecificOutput":{"updatedInput":{"command":"ls"}}}`, "rewrites", "rewrites"},
		{"blocked", `{"blocked":true}`, "fails", "fails"},
		{"not blocked", `{"blocked":false}`, "nothing", "nothing"},
		{"not allowed", `{"allow":false}`, "fails", "fails"},
		{"ok", `{"ok":true}`, "nothing", "nothing"},
		{"not ok", `{"ok":false}`, "fails", "fails"},
		{"a status that refuses", `{"status":"Denied"}`, "fails", "fails"},
		{"a status", `{"status":"done"}`, "nothing", "nothing"},
		{"Cline", `{"cancel":true,"errorMessage":"no"}`, "fails", "fails"},
		{"Copilot", `{"permissionDecision":"allow","modifiedArgs":{"command":"ls"}}`, "fails", "fails"},
		{"a field in the wrong place", `{"hookSpecificOutput":{"block":true}}`, "fails", "fails"},
		{"continue in the wrong place", `{"hookSpecificOutput":{"continue":false}}`, "fails", "fails"},
		{"a list in place of an object", `{"hookSpecificOutput":[]}`, "fails", "fails"},
		{
			"all that Claude Code writes", `{"continue":true,"suppressOutput":true,"async":false,"hookSpecificOutput":{` +
				`"hookEventName":"PreToolUse","permissionDecision":"allow","updatedPermissions":[{"behavior":"deny"}]}}`,
			"allows", "allows",
		},
		{"interrupt", `{"hookSpecificOutput":{"decision":{"behavior":"deny","interrupt":true}}}`, "block", "block"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []struct {
				by, want string
				read     func([]byte) (*Output, error)
			}{{"a command", tt.command, parseOutput}, {"a URL", tt.url, parseBody}} {
				o, err := r.read([]byte(tt.text))
				got := "nothing"
				switch {
				case err != nil:
					got = "fails"
				case o.empty():
				case o.blocks():
					got = "block"
				case o.asks():
					got = "ask"
				case o.UpdatedInput != nil:
					got = "rewrites"
				case o.allows():
					got = "allows"
				case o.Message != "":
					got = "says"
				}
				if got != r.want {
					t.Errorf("%s: got %s (%+v, %v), want %s", r.by, got, o, err, r.want)
				}
			}
		})
	}
	o, err := parseOutput([]byte(`{"decision":{"behavior":"allow","message":"yes"},"hookSpecificOutput":{"decision":` +
		`{"behavior":"deny","message":"no"}}}`))
	if err != nil || o.why() != "no" {
		t.Errorf("the reason is %+v, %v, want that of the stricter decision", o, err)
	}
}

// TestEachFieldOfAnOutputIsRead: a field that is added to Output has its name among those that are read.
func TestEachFieldOfAnOutputIsRead(t *testing.T) {
	for _, of := range []reflect.Type{reflect.TypeFor[Output](), reflect.TypeFor[foreign]()} {
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !slices.Contains(answerFields, name) {
				t.Errorf("%s is not among the fields that are read", name)
			}
		}
	}
}
