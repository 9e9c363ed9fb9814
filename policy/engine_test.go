package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools"
	"github.com/sandboxd/sandboxd/pipeline"
)

// The specs of the built-in tools that the tests call.
var specs = map[string]tool.Spec{
	"Bash":  {Name: "Bash", Class: tool.ClassExec, Annotations: &tool.Annotations{Destructive: true, OpenWorld: true}},
	"Read":  {Name: "Read", Class: tool.ClassRead, ReadOnly: true, Annotations: &tool.Annotations{ReadOnly: true}},
	"Write": {Name: "Write", Class: tool.ClassWrite, Annotations: &tool.Annotations{}},
	"Edit":  {Name: "Edit", Class: tool.ClassWrite, Annotations: &tool.Annotations{}},
	"Todo":  {Name: "Todo", Class: tool.ClassState, Annotations: &tool.Annotations{}},
}

// newCall is a call of a session in /src, whose workspace that is.
func newCall(t testing.TB, mode tool.Mode, name string, args any) *tool.Call {
	t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	spec, ok := specs[name]
	if !ok {
		spec = tool.Spec{Name: name}
	}
	return &tool.Call{
		Target: tool.Target{
			Spec:    spec,
			Session: tool.Session{ID: "s1", Account: "a1", Dir: "/src", Home: "/home/u", Mode: mode},
		},
		In: tool.In{Session: "s1", Dir: "/src", Home: "/home/u", Args: b},
		Judgement: tool.Judgement{
			Facts:    tool.Facts{Class: spec.Class, Mode: mode},
			Settings: guard.Settings{AllowedWritePaths: []string{"/src"}},
		},
	}
}

// fileCall is a call of a file tool on a path.
func fileCall(t testing.TB, mode tool.Mode, name, path string) *tool.Call {
	c := newCall(t, mode, name, map[string]string{"file_path": path})
	op := guard.Read
	if c.Spec.Class == tool.ClassWrite {
		op = guard.Write
	}
	c.Facts.Uses.Paths = []guard.PathUse{{Raw: path, Path: path, Op: op}}
	return c
}

// bash is a call of Bash with the facts of its command line.
func bash(t testing.TB, mode tool.Mode, line string) *tool.Call {
	return bashIn(t, "/src", mode, line)
}

// bashIn is bash in a session of this directory, whose workspace that is.
func bashIn(t testing.TB, dir string, mode tool.Mode, line string) *tool.Call {
	t.Helper()
	c := newCall(t, mode, "Bash", map[string]string{"command": line})
	c.Request.Tool, c.Session.Dir = "Bash", dir
	c.Session.Sandbox = &guard.Settings{AllowedWritePaths: []string{dir}, AutoAllowBashIfSandboxed: true}
	if err := testFacts(t.Context(), c); err != nil {
		t.Fatalf("facts of %q: %v", line, err)
	}
	return c
}

// testFacts are those of the built-in tools.
func testFacts(ctx context.Context, c *tool.Call) error {
	return pipeline.Options{Tools: testTools(), Workspaces: tool.Workspace{}}.Facts(ctx, c)
}

// testTools are all tools; their schemas are compiled once.
var testTools = sync.OnceValue(func() *catalog.Registry {
	r := catalog.NewRegistry(tools.Groups()...)
	r.SetDefaults(catalog.Defaults{AllGroups: true})
	return r
})

// newEngine has time enough on a busy machine, unless the test is about time.
func newEngine(t testing.TB, opts Options) *Engine {
	t.Helper()
	opts.Deadline, opts.Facts = cmp.Or(opts.Deadline, time.Minute), testFacts
	e, err := New(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func decide(t testing.TB, e *Engine, c *tool.Call) tool.Decision {
	t.Helper()
	d, err := e.Decide(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// explain is a decision and what it was made of.
func explain(t testing.TB, e *Engine, c *tool.Call) (tool.Decision, Explanation) {
	t.Helper()
	ctx, seen := WithEvidence(context.Background())
	d, err := e.Decide(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	x, err := seen.Explain(d)
	if err != nil {
		t.Fatal(err)
	}
	return d, x
}

func TestARuleNamesTheCommandThatItIsAbout(t *testing.T) {
	e := newEngine(t, Options{})
	d := decide(t, e, bash(t, tool.ModeBypassPermissions, "ls && bwrap sh"))
	if d.Verdict != tool.Deny || d.By != tool.ByRule || len(d.Reasons) != 1 {
		t.Fatalf("decision %+v, want one deny by a rule", d)
	}
	r := d.Reasons[0]
	if r.Rule != "core.nested_sandbox" || r.At == nil || r.At.Col != 7 || r.Hint == "" {
		t.Errorf("reason %+v, want core.nested_sandbox at column 7 with a hint", r)
	}
	if d.Revision == "" || d.Revision != e.Status().Revision {
		t.Errorf("revision %q, want that of the status, %q", d.Revision, e.Status().Revision)
	}
}

func TestForcePushAsksInModeAuto(t *testing.T) {
	e := newEngine(t, Options{})
	d := decide(t, e, bash(t, tool.ModeAuto, "git -C sub push -uf origin main"))
	if d.Verdict != tool.Ask || d.By != tool.ByRule || d.Reasons[0].Rule != "developer.git.force_push" {
		t.Errorf("decision %+v, want an ask by developer.git.force_push", d)
	}
}
