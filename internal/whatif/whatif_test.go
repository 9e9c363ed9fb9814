package whatif

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
)

func TestADescribedCallIsReadOrRefused(t *testing.T) {
	for _, tt := range []struct{ name, line, text, stdin, want string }{
		{"a command line", "ls -l", "", "", `Bash {"command":"ls -l"}`},
		{"a call as text", "", `{"tool": "Read", "args": {"file_path": "a"}}`, "", `Read {"file_path": "a"}`},
		{"a call from stdin", "", "", `{"args": {"command": "ls"}}`, `Bash {"command": "ls"}`},
		{"no JSON", "", "", "ls", `read {"tool", "args"}: invalid character 'l' looking for beginning of value`},
		{"a field that there is not", "", `{"tol": "Read"}`, "", `read {"tool", "args"}: json: unknown field "tol"`},
		{"a field twice", "", `{"tool": "Read", "tool": "Bash"}`, "", `read {"tool", "args"}: field "tool" is given twice`},
		{"a session", "", `{"session_id": "s1"}`, "", "name the session with --session"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Described(tt.line, tt.text, strings.NewReader(tt.stdin))
			got := c.Tool + " " + string(c.Args)
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// judged is a daemon that judged one call, and judges it anew.
type judged struct {
	then policy.Record
	now  policy.Explanation
	err  error // of the judgement now

	asked []Call
}

func (d *judged) Do(_ context.Context, _, path string, in, out any) error {
	if strings.HasPrefix(path, "/decisions/") {
		*out.(*policy.Record) = d.then
		return nil
	}
	d.asked = append(d.asked, in.(Call))
	*out.(*policy.Explanation) = d.now
	return d.err
}

func TestAPastCallIsJudgedAgainOrTheNoteSaysWhyNot(t *testing.T) {
	for _, tt := range []struct {
		name, input string
		now         tool.Decision
		err         error
		note        string
		asked       int
	}{
		{"as it was", `{"params": {"command": "ls"}}`, tool.Decision{Verdict: tool.Allow, Revision: "r1"}, nil, "", 1},
		{
			"by another revision", `{"params": {"command": "ls"}}`,
			tool.Decision{Verdict: tool.Deny, Revision: "r2"},
			nil,
			"judged now it is deny, by revision r2", 1,
		},
		{
			"before any policy", `{"params": {"command": "ls"}}`,
			tool.Decision{},
			nil,
			"judged now it is deny, before any policy", 1,
		},
		{"without its input", "", tool.Decision{}, nil, "it cannot be judged again: its arguments are not kept", 0},
		{
			"with a part that is masked", `{"params": {"command": "[masked]"}}`,
			tool.Decision{},
			nil,
			"it cannot be judged again: a part of its arguments is masked", 0,
		},
		{
			"of a session that is gone", `{"params": {"command": "ls"}}`,
			tool.Decision{},
			errors.New("no session"),
			"it cannot be judged again: no session", 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &judged{now: policy.Explanation{Decision: tt.now, Nearest: "without -f"}, err: tt.err}
			d.then = policy.Record{Session: "s1", Tool: "Bash"}
			d.then.Decision = tool.Decision{Verdict: tool.Allow, Revision: "r1"}
			if tt.input != "" {
				d.then.Input = json.RawMessage(tt.input)
			}
			rec, err := Past(t.Context(), d, "call_1", true)
			if err != nil || rec.Note != tt.note || len(d.asked) != tt.asked {
				t.Fatalf("got note %q, asked %d times, %v; want %q, %d", rec.Note, len(d.asked), err, tt.note, tt.asked)
			}
			if tt.asked > 0 && (d.asked[0].Session != "s1" || !d.asked[0].Nearest) {
				t.Errorf("asked %+v", d.asked[0])
			}
			if judgedAgain := tt.asked > 0 && tt.err == nil; judgedAgain != (rec.Nearest != "") {
				t.Errorf("nearest: %q", rec.Nearest)
			}
		})
	}
}

func TestMeasureEndsWithTheFirstError(t *testing.T) {
	n := 0
	took, err := Measure(5, func() error { n++; return nil })
	if n != 5 || err != nil || took.Median > took.P99 || took.P99 > took.Slowest {
		t.Errorf("judged %d times: %+v, %v", n, took, err)
	}
	if _, err := Measure(5, func() error { return errors.New("no") }); err == nil {
		t.Error("an error was lost")
	}
}
