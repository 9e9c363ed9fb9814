package input_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/shellparse"
)

// TestWhatACommandLosesAndReaches: each command has its own effects, and the document names their
// kinds once.
func TestWhatACommandLosesAndReaches(t *testing.T) {
	at := func(line int32) shellparse.Pos { return shellparse.Pos{Line: line} }
	c := &tool.Call{
		Judgement: tool.Judgement{
			Settings: guard.Settings{AllowedWritePaths: []string{"/tmp", "/var/tmp/", "/dev/shm", "/src/"}},
		},
	}
	c.Facts.Uses = guard.Uses{
		Script: &shellparse.Script{
			Commands: []shellparse.Command{
				{Name: "ls", At: at(1), Effects: &shellparse.Effects{}},
				{
					Name: "npm", At: at(2), Dir: "/src", Hosts: []string{"a.test"}, Effects: &shellparse.Effects{
						Acts: []shellparse.Act{
							{Program: "npm", Verb: "publish", Target: "a.test", Does: shellparse.Publishes},
							{Program: "crontab", Does: shellparse.Plants},
						},
						Runs: []shellparse.Run{{From: "download"}},
					},
				},
				{Name: "psql", At: at(3), Effects: &shellparse.Effects{}},
			},
			Opaque: []shellparse.Opaque{{Code: "inline_code", Command: "sh", At: at(4)}},
		},
		Paths: []guard.PathUse{
			{Raw: "a/b", Path: "/src/a/b", Op: guard.Write, Recursive: true, Looks: true, At: at(5)},
			{Raw: "c", Path: "/src/c", Op: guard.Write},
		},
		Deletes: []guard.Deletion{
			{
				Command: 1, PathUse: guard.PathUse{Raw: "x", Path: "/src/d/x", Recursive: true},
				Many: true, Names: []string{"*.o"},
				Was: "/src/old", Outside: true, Tracked: true, Unsaved: true,
			},
			{Command: 2, PathUse: guard.PathUse{Raw: "y", Path: "/tmp/y"}, Moved: "/srcs/y"},
			{Command: 2, PathUse: guard.PathUse{Raw: "$z"}},
		},
		Discards: []guard.Discard{
			{Command: 0, What: "stash"},
			{Command: 1, What: "index"},
			{Command: 1, What: "index"},
		},
		Acts: []guard.Act{
			{Command: 0, Act: shellparse.Act{Program: "ls", Verb: "never", Does: "changes"}},
			{Command: 2, Act: shellparse.Act{Program: "psql", Verb: "drop", Target: "db", Does: "deletes"}},
		},
		Losses: []guard.Loss{{Use: 1, Path: "/src/c"}, {Use: 1, Path: "/etc/c"}},
		Hosts:  []string{"A.test", "a.test."},
	}
	in, err := input.New(c)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	check("the second deletes", in.Commands[1].Deletes, []input.Delete{{
		Raw: "x", Path: "/src/d/x", Tree: true, Many: true, Names: []string{"*.o"},
		Below: []string{"d", "x"}, InWorkspace: true,
		Was: []string{"old"}, Outside: true, Tracked: true, Unsaved: true,
	}})
	check(
		"the third deletes",
		in.Commands[2].Deletes,
		[]input.Delete{{Raw: "y", Path: "/tmp/y", To: []string{"srcs", "y"}}, {Raw: "$z"}},
	)
	check("the first deletes", len(in.Commands[0].Deletes), 0)
	check("the first discards", in.Commands[0].Discards, []string{"stash"})
	check("the second discards", in.Commands[1].Discards, []string{"index"})
	check("the second publishes", in.Commands[1].Publishes, []string{"npm publish"})
	check("the second reaches", in.Commands[1].Remote, []input.Remote{
		{Program: "npm", Verb: "publish", Target: "a.test", Does: string(shellparse.Publishes)},
	})
	check("the second runs", in.Commands[1].RunsText, []input.Run{{From: "download"}})
	check(
		"the third reaches",
		in.Commands[2].Remote,
		[]input.Remote{{Program: "psql", Verb: "drop", Target: "db", Does: "deletes"}},
	)
	check("planted", in.Plants, []input.Plant{{Subject: "command:1", Raw: "crontab", Program: "crontab"}})
	check(
		"lost",
		in.Paths[1].Loses,
		[]input.Loss{{Path: "/src/c", Below: []string{"c"}, InWorkspace: true}, {Path: "/etc/c"}},
	)
	check(
		"a path",
		[]any{in.Paths[0].ID, in.Paths[0].Raw, in.Paths[0].Recursive, in.Paths[0].Looks, in.Paths[0].Segments},
		[]any{"path:0", "a/b", true, true, []string{"src", "a", "b"}},
	)
	slices.Sort(in.Effects)
	check(
		"kinds",
		in.Effects,
		[]string{"deletes", "discards", "loses", "moves", "plants", "publishes", "remote", "runs_text"},
	)
	check("opaque", in.Opaque, []input.Opaque{{ID: "opaque:0", Code: "inline_code", Command: "sh"}})
	check("hosts", len(in.Hosts), 1)
	check(
		"a command",
		[]any{in.Commands[1].ID, in.Commands[1].Dir, in.Commands[1].Hosts},
		[]any{"command:1", "/src", []string{"a.test"}},
	)
	for id, line := range map[string]int32{
		"command:0": 1, "command:2": 3, "opaque:0": 4, "path:0": 5, "path:1": 0, "host:0": 0,
	} {
		if at, ok := in.Place(id); ok != (line > 0) || at.Line != line {
			t.Errorf("%s stands in line %d, %v, want %d", id, at.Line, ok, line)
		}
	}
	for name, want := range map[string]int{
		"paths": 2, "hosts": 1, "commands": 3, "opaque": 1, "paths.op": 2, "paths.outside": 0, "effects": 8, "changes": 0,
		"paths.segments": 5, "authors": 0, "other": 0,
	} {
		if texts, n := in.List(name); n != want {
			t.Errorf("%s has %d, %q, want %d", name, n, texts, want)
		}
	}
}

// TestAConnectionIsOfAHostOfTheDocument, which is listed where its port is.
func TestAConnectionIsOfAHostOfTheDocument(t *testing.T) {
	c := &tool.Call{
		Judgement: tool.Judgement{
			Settings: guard.Settings{Network: guard.Network{AllowedDomains: []string{"a.test", "b.test:22"}}},
		},
	}
	for _, tt := range []struct {
		host   string
		port   int
		listed bool
	}{{"a.test", 443, true}, {"a.test", 22, false}, {"b.test", 22, true}, {"b.test", 443, false}, {"c.test", 443, false}} {
		in, err := input.NewConnecting(
			c,
			egress.Connection{Host: tt.host, Port: tt.port, Protocol: "http", Method: "GET", Path: "/p", Via: "proxy"},
		)
		if err != nil {
			t.Fatal(err)
		}
		want := &input.Connection{
			Host:     tt.host,
			Port:     tt.port,
			Protocol: "http",
			Method:   "GET",
			Path:     "/p",
			Via:      "proxy",
		}
		if diff := cmp.Diff(want, in.Connection); diff != "" {
			t.Error(diff)
		}
		if len(in.Hosts) != 1 || in.Hosts[0].Name != tt.host || in.Hosts[0].Listed != tt.listed ||
			in.Hosts[0].ID != "host:0" {
			t.Errorf("%s:%d: %+v, want listed %v", tt.host, tt.port, in.Hosts, tt.listed)
		}
	}
	c.In.Args = []byte("[]")
	if _, err := input.NewConnecting(c, egress.Connection{Host: "a.test"}); err == nil {
		t.Error("arguments that are no object are taken")
	}
	if _, err := input.NewChanged(c, nil); err == nil {
		t.Error("arguments that are no object are taken for changes")
	}
	c.In.Args = nil
	changes := []tool.Changed{{Path: "/src/a"}}
	if in, err := input.NewChanged(c, changes); err != nil || !cmp.Equal(in.Changes, changes) {
		t.Errorf("the changes are %+v, %v", in.Changes, err)
	}
}

// TestP05_AnEditIsOfKnownFilesOfTheWorkspace.
func TestP05_AnEditIsOfKnownFilesOfTheWorkspace(t *testing.T) {
	inside, outside := input.Path{Op: "write", InWorkspace: true}, input.Path{Op: "write"}
	for _, tt := range []struct {
		name string
		tool input.Tool
		with []input.Path
		want bool
	}{
		{"an edit", input.Tool{Class: string(tool.ClassWrite)}, []input.Path{inside}, true},
		{"that reads elsewhere", input.Tool{Class: string(tool.ClassWrite)}, []input.Path{inside, {Op: "read"}}, true},
		{"of nothing", input.Tool{Class: string(tool.ClassWrite)}, nil, false},
		{"elsewhere", input.Tool{Class: string(tool.ClassWrite)}, []input.Path{inside, outside}, false},
		{"that destroys", input.Tool{Class: string(tool.ClassWrite), Destructive: true}, []input.Path{inside}, false},
		{"a command", input.Tool{Class: string(tool.ClassExec)}, []input.Path{inside}, false},
	} {
		if got := (&input.Document{Tool: tt.tool, Paths: tt.with}).EditsWorkspace(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestWhatNoRuleReadsIsLeftOut: what costs most to make is there only for rules that read it.
func TestWhatNoRuleReadsIsLeftOut(t *testing.T) {
	in := &input.Document{
		MCP: &tool.MCP{
			Server: "s",
		}, Recent: &input.Recent{}, Connection: &input.Connection{}, Changes: []tool.Changed{{Path: "/a"}},
	}
	for _, name := range []string{"mcp", "recent", "connection", "changes"} {
		if _, ok := in.Fields(nil)[name]; !ok {
			t.Errorf("all of it lacks %s", name)
		}
		if _, ok := in.Fields(input.Fields{name: true})[name]; !ok {
			t.Errorf("%s is read and missing", name)
		}
		if _, ok := in.Fields(input.Fields{"tool": true})[name]; ok {
			t.Errorf("%s is there and not read", name)
		}
		if _, ok := (&input.Document{}).Fields(nil)[name]; ok {
			t.Errorf("%s is there without a value", name)
		}
	}
	var v input.Verdicts
	for _, name := range []string{"allow", "ask", "ask", "deny", "deny", "deny", "other"} {
		v.Add(name, 1)
	}
	if v != (input.Verdicts{Allow: 1, Ask: 2, Deny: 3}) {
		t.Errorf("counted %+v", v)
	}
}
