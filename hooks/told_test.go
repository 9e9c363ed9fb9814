package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tool"
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
			heard = append(heard, strings.TrimSpace(fmt.Sprintf("%s %s%s%s", in.Event, in.FilePath, in.Error, dirOf(in))))
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
	write := sandbox.Uses{Paths: []sandbox.PathUse{
		{Path: "/w/in", Op: sandbox.Read},
		{Path: "/w/out", Op: sandbox.Write},
		{Path: "/w/out", Op: sandbox.Write},
		{Op: sandbox.Write, Problem: "unknown"},
		{Path: "/w/*", Op: sandbox.Write, Glob: true},
	}}
	shell := write
	shell.Script = new(shellparse.Script)
	for _, tt := range []struct {
		name, dir string
		uses      sandbox.Uses
		want      []string
	}{
		{"a file, once", "", write, []string{"fileChanged /w/out"}},
		{"a shell command names no files", "", shell, nil},
		{"another directory", "/w/sub", sandbox.Uses{}, []string{"cwdChanged /w/sub"}},
		{"the same directory", "/w", sandbox.Uses{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, heard := listen(t, FileChanged, CwdChanged)
			c := &tool.Call{Session: tool.Session{ID: "s", Dir: "/w"}, Facts: tool.Facts{Uses: tt.uses}, Output: tool.Output{Dir: tt.dir}}
			said := r.Changed(t.Context(), c)
			if !slices.Equal(*heard, tt.want) || len(said) != len(tt.want) {
				t.Errorf("heard %q, want %q; said %q", *heard, tt.want, said)
			}
		})
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
		{"what is blocked before is not asked", &Output{Block: true, Reason: "first"}, &Output{Block: true, Reason: "second"}, "block first"},
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
					if event == PermissionRequest && tt.pre.UpdatedInput != nil && string(in.ToolInput) != `{"command":"one"}` {
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
