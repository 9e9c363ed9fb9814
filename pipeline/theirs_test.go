package pipeline

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
)

// The cage leaves a denied place out of a tree that is read. What another program reads does
// not go through the cage, so that its search is denied and its command is asked about.
func TestTreesThatAnotherProgramReads(t *testing.T) {
	tree := guard.Uses{Paths: []guard.PathUse{{Raw: "/", Path: "/", Op: guard.Read, Recursive: true}}}
	command := tree
	command.Script = &shellparse.Script{}
	for _, tt := range []struct {
		name   string
		uses   guard.Uses
		theirs bool
		want   tool.Verdict
	}{
		{"a search of ours", tree, false, tool.Allow},
		{"a search of ours where nothing holds", tree, false, tool.Ask},
		{"a search of a server of others", tree, false, tool.Deny},
		{"a search of theirs", tree, true, tool.Deny},
		{"a command of ours", command, false, tool.Allow},
		{"a command of theirs", command, true, tool.Ask},
	} {
		w := newWorld(tool.Spec{})
		w.echo.uses = tt.uses
		w.settings.DeniedPaths = []string{"/secret"}
		if strings.Contains(tt.name, "server") {
			w.echo.spec.MCP = &tool.MCP{}
		}
		p := w.pipeline()
		if p.confined = confines(sandbox.Report{Isolation: "namespaces"}); strings.Contains(tt.name, "nothing holds") {
			p.confined = confines(sandbox.Report{})
		}
		req := w.request(`{"text":"x"}`)
		req.DryRun, req.Theirs = true, tt.theirs
		got := p.Decide(t.Context(), req)
		if got.Decision.Verdict != tt.want {
			t.Errorf("%s: got %+v", tt.name, got.Decision)
		}
		if tt.want == tool.Deny && !strings.Contains(got.Decision.Reasons[0].Hint, "or search with a shell command") {
			t.Errorf("%s: got the hint %q", tt.name, got.Decision.Reasons[0].Hint)
		}
	}
}

// ~ of what a client runs leads to its HOME. Rules keep the home of the session.
func TestTheHomeOfAClient(t *testing.T) {
	for want, given := range map[string]string{"/elsewhere": "/elsewhere", "/home/u": ""} {
		w := newWorld(tool.Spec{})
		w.session.Home = "/home/u"
		req := w.request(hello)
		req.DryRun, req.Theirs, req.Home = true, true, given
		got := w.pipeline().Decide(t.Context(), req)
		if got.In.Home != want || got.Session.Home != "/home/u" {
			t.Errorf("HOME %q: got ~ as %s, and %s for rules", given, got.In.Home, got.Session.Home)
		}
	}
}

// A host that no list names is asked about when a program of the cage connects. Nobody sees the
// connection of another program, so that it is asked about before.
func TestHostsThatAnotherProgramReaches(t *testing.T) {
	for name, tt := range map[string]struct {
		host          string
		theirs, typed bool
		want          tool.Verdict
	}{
		"ours":                     {"c.test", false, false, tool.Allow},
		"theirs":                   {"c.test", true, false, tool.Ask},
		"theirs, typed into":       {"c.test", true, true, tool.Ask},
		"theirs, and it is listed": {"a.test", true, false, tool.Allow},
		"theirs, and it is denied": {"b.test", true, false, tool.Deny},
		"of a server of others":    {"c.test", false, false, tool.Ask},
		"ours, and nothing holds":  {"c.test", false, false, tool.Ask},
		// What a tool of another agent reaches is for rules: the network of the settings is that of the sandbox.
		"a tool of another agent": {"b.test", false, false, tool.Allow},
	} {
		w := newWorld(tool.Spec{})
		w.settings.Network = asksFor
		w.echo.uses = guard.Uses{Hosts: []string{tt.host}}
		if name == "of a server of others" {
			w.echo.spec.MCP = &tool.MCP{}
		}
		p := w.pipeline()
		p.confined = name != "ours, and nothing holds"
		req := w.request(`{"text":"x"}`)
		if req.Outside = name == "a tool of another agent"; req.Outside {
			req.Tool, req.Args = "WebFetch", []byte(`{"url":"https://`+tt.host+`/"}`)
		}
		req.DryRun, req.Theirs, req.Typed = true, tt.theirs, tt.typed
		got := p.Decide(t.Context(), req)
		if got.Decision.Verdict != tt.want {
			t.Errorf("%s: got %+v", name, got.Decision)
		}
	}
}

// The cage holds what a program does, but nobody judges what is typed into it: a shell that reads it
// is asked about in the cage too.
func TestWhatIsTypedIntoACagedShellIsAskedAbout(t *testing.T) {
	for name, tt := range map[string]struct {
		command string
		typed   bool
		want    tool.Verdict
	}{
		"a shell":                   {"bash", true, tool.Ask},
		"a shell without input":     {"bash", false, tool.Allow},
		"a program that reads none": {"ls", true, tool.Allow},
	} {
		script, err := shellparse.Parse(tt.command, shellparse.Options{Dir: "/w", Home: "/h", Typed: tt.typed})
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(tool.Spec{})
		w.echo.uses = guard.Uses{Script: script}
		p := w.pipeline()
		p.confined = true
		req := w.request(`{"text":"x"}`)
		req.DryRun = true
		if got := p.Decide(t.Context(), req); got.Decision.Verdict != tt.want {
			t.Errorf("%s: got %+v, want %s", name, got.Decision, tt.want)
		}
	}
}
