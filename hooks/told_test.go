package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/shellparse"
)

// listen writes down each event that fires, and says the name of it to the model.
func listen(t *testing.T, events ...Event) (*Registry, *[]string) {
	t.Helper()
	r, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	var heard []string
	for _, e := range events {
		err := r.Register(e, Definition{Name: string(e), Handler: func(_ context.Context, in Input) (*Output, error) {
			heard = append(heard,
				strings.TrimSpace(fmt.Sprintf("%s %s%s%s", in.Event, in.FilePath, in.Error, dirOf(in))))
			return &Output{AdditionalContext: string(in.Event)}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return r, &heard
}

func dirOf(in Input) string {
	if in.Event == CwdChanged {
		return in.Cwd
	}
	return ""
}

func TestH04_ChangesAreTold(t *testing.T) {
	write := guard.Uses{Paths: []guard.PathUse{
		{Path: "/w/in", Op: guard.Read},
		{Path: "/w/out", Op: guard.Write},
		{Path: "/w/out", Op: guard.Write},
		{Op: guard.Write, Problem: "unknown"},
		{Path: "/w/*", Op: guard.Write, Glob: true},
	}}
	shell := write
	shell.Script = new(shellparse.Script)
	for _, tt := range []struct {
		name, dir string
		uses      guard.Uses
		want      []string
	}{
		{"a file, once", "", write, []string{"fileChanged /w/out"}},
		{"a shell command names no files", "", shell, nil},
		{"another directory", "/w/sub", guard.Uses{}, []string{"cwdChanged /w/sub"}},
		{"the same directory", "/w", guard.Uses{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, heard := listen(t, FileChanged, CwdChanged)
			c := &tool.Call{
				Target:    tool.Target{Session: tool.Session{ID: "s", Dir: "/w"}},
				Judgement: tool.Judgement{Facts: tool.Facts{Uses: tt.uses}},
				Execution: tool.Execution{Output: tool.Output{Dir: tt.dir}},
			}
			said := append(r.Changed(t.Context(), c), r.Moved(t.Context(), c)...)
			if !slices.Equal(*heard, tt.want) || len(said) != len(tt.want) {
				t.Errorf("heard %q, want %q; said %q", *heard, tt.want, said)
			}
		})
	}
}

// What a call changed is told after it, also of a command and of one that failed, and how much is left out.
func TestH04_PostToolUseHasTheChanges(t *testing.T) {
	list := []tool.Change{{Path: "a", Kind: tool.ChangeDelete, BytesBefore: 3}}
	for _, tt := range []struct {
		status tool.Status
		total  int
		want   string
	}{
		{tool.StatusSuccess, 1, `[{"path":"a","kind":"delete","bytes_before":3,"bytes_after":0}] null`},
		{tool.StatusError, 2, `[{"path":"a","kind":"delete","bytes_before":3,"bytes_after":0}] 2`},
		{tool.StatusSuccess, 0, `null null`},
	} {
		r, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range []Event{PostToolUse, PostToolUseFailure} {
			err := r.Register(e, Definition{Handler: func(_ context.Context, in Input) (*Output, error) {
				data, err := in.encode()
				var said map[string]json.RawMessage
				err = errors.Join(err, json.Unmarshal(data, &said))
				word := func(name string) string { return cmp.Or(string(said[name]), "null") }
				got = word("changes") + " " + word("changesTotal")
				return nil, err
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		changes := tool.Changes{List: list[:min(tt.total, 1)], Total: tt.total}
		c := &tool.Call{Result: tool.Result{Status: tt.status}, Execution: tool.Execution{Changes: changes}}
		if _, err := r.After(t.Context(), c); err != nil || got != tt.want {
			t.Errorf("%s: %v: got %s, want %s", tt.status, err, got, tt.want)
		}
	}
}

// A denied call fires both, and the error of the second is the reason; who left
// meanwhile does not keep it from being heard.
func TestH05_PermissionEvents(t *testing.T) {
	r, heard := listen(t, PreToolUse, PermissionRequest, PermissionDenied)
	c := &tool.Call{Request: tool.Request{Tool: "Bash", Session: "s"}}
	if _, err := r.Before(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	c.Result.Status, c.Result.RejectReason = tool.StatusExecutionRejected, "not today"
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r.Refused(gone, c)
	if want := []string{"preToolUse", "permissionRequest", "permissionDenied not today"}; !slices.Equal(*heard, want) {
		t.Errorf("heard %q, want %q", *heard, want)
	}
}

// A call that a hook of preToolUse blocked was a request for permission as well;
// nothing that its hooks say lifts the block or takes its reason.
func TestH05_ABlockedCallFiresPermissionRequest(t *testing.T) {
	for _, tt := range []struct {
		name    string
		request *Output
	}{
		{"silent", nil},
		{"it approves", &Output{Decision: "approve"}},
		{"it blocks as well", &Output{Block: true, Reason: "second"}},
		{"it asks", &Output{Permission: "ask", Reason: "hm"}},
		{"it rewrites", &Output{UpdatedInput: json.RawMessage(`{"command":"true"}`)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			var heard []string
			outputs := map[Event]*Output{
				PreToolUse: {Block: true, Reason: "first"}, PermissionRequest: tt.request, PermissionDenied: nil,
			}
			for event, out := range outputs {
				err := r.Register(event, Definition{Handler: func(_ context.Context, in Input) (*Output, error) {
					heard = append(heard, strings.TrimSpace(fmt.Sprintf("%s %s %s", in.Event, in.ToolInput, in.Error)))
					return out, nil
				}})
				if err != nil {
					t.Fatal(err)
				}
			}
			c := &tool.Call{
				Request: tool.Request{Tool: "Bash", Session: "s"},
				In:      tool.In{Args: json.RawMessage(`{"command":"rm x"}`)},
			}
			a, err := r.Before(t.Context(), c)
			if err != nil || !a.Block || a.Reason != "first" || a.Ask || a.Allow || a.Args != nil {
				t.Errorf("got %+v, %v, want the block of the first", a, err)
			}
			c.Result.RejectReason = a.Reason
			r.Refused(t.Context(), c)
			want := []string{
				`preToolUse {"command":"rm x"}`, `permissionRequest {"command":"rm x"}`,
				`permissionDenied {"command":"rm x"} first`,
			}
			if !slices.Equal(heard, want) {
				t.Errorf("heard %q, want %q", heard, want)
			}
		})
	}
}

func TestPermissionRequestTightens(t *testing.T) {
	pre := &Output{Decision: "approve", UpdatedInput: json.RawMessage(`{"command":"one"}`), SystemMessage: "first"}
	for _, tt := range []struct {
		name    string
		pre     *Output
		request *Output
		want    string
	}{
		{"a block beats an approval", pre, &Output{Block: true, Reason: "no"}, "block no"},
		{"a question beats an approval", pre, &Output{Permission: "ask", Reason: "hm"}, `ask hm {"command":"two"}`},
		{"an approval does not lift a question", &Output{Permission: "ask", Reason: "hm"}, &Output{Decision: "approve"}, "ask hm"},
		{
			"what is blocked before is not asked", &Output{Block: true, Reason: "first"},
			&Output{Block: true, Reason: "second"}, "block first",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			if tt.request.Permission == "ask" { // it sees what the other left
				tt.request.UpdatedInput = json.RawMessage(`{"command":"two"}`)
			}
			for event, out := range map[Event]*Output{PreToolUse: tt.pre, PermissionRequest: tt.request} {
				err := r.Register(event, Definition{Handler: func(_ context.Context, in Input) (*Output, error) {
					if event == PermissionRequest && tt.pre.UpdatedInput != nil &&
						string(in.ToolInput) != `{"command":"one"}` {
						t.Errorf("saw %s", in.ToolInput)
					}
					return out, nil
				}})
				if err != nil {
					t.Fatal(err)
				}
			}
			a, err := r.Before(t.Context(), &tool.Call{Request: tool.Request{Tool: "Bash", Session: "s"}})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			switch {
			case a.Block:
				got = "block " + a.Reason
			case a.Ask:
				got = "ask " + a.Reason
			case a.Allow:
				got = "allow"
			}
			if got = strings.TrimSpace(got + " " + string(a.Args)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
