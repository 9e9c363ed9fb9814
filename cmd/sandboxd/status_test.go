package main

import (
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/api"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/diskspace"
	"github.com/sandboxd/sandboxd/internal/projects"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
)

// TestStatusIsForPeople: what needs attention is marked, and every row fits.
func TestStatusIsForPeople(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	good := api.Status{
		Version: "1.2.3", Uptime: 3700, Roots: []string{"/srv/a", "/srv/b"}, RoleSplit: "enforced", Rights: "caller",
		Config:  api.ConfigStatus{File: "/etc/sandboxd/config.yaml", Loaded: at},
		Policy:  api.PolicyStatus{Profile: "developer", Revision: "abc"},
		Sandbox: sandbox.Report{Profile: "strict", Isolation: "namespaces", Layers: []string{"userns", "landlock:7"}},
		Parts: map[string]any{
			"audit": audit.Status{Line: 12, Kept: 11, Anchor: &audit.AnchorStatus{Line: 10}},
			"jobs":  map[string]int{"running": 2},
			"undo":  map[string]any{"mode": "auto", "keep_bytes": 5 << 30},
			"web":   nil,
			"projects": []projects.Status{
				{Project: projects.Project{Dir: "/home/ann/one"}}, {Project: projects.Project{Dir: "/home/ann/two"}},
			},
		},
	}
	const want = `sandboxd 1.2.3, up 1h1m40s
  workspace  /srv/a, /srv/b
  projects   /home/ann/one
             /home/ann/two
  config     /etc/sandboxd/config.yaml, loaded 2026-01-02 03:04:05
  rules      profile developer, revision abc
  sandbox    namespaces, profile strict: userns landlock:7
  roles      agent and daemon are different users
  rights     tools have the rights of the user that calls
  questions  none waits
  record     12 lines, known beside the key up to 11, anchored up to 10
  jobs       running 2
  undo       keep bytes 5.0 GiB, mode auto
  web        off
`
	if got := showStatus(good, review.Screen{Width: 80}); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	bad := good
	bad.RoleSplit, bad.Pending, bad.Sandbox.Missing = "advisory", 2, []string{"netns: \x1b[31mno"}
	bad.Config.Failure = &api.ReloadFailure{At: at, Error: "line 3: unknown key\nline 4: another"}
	bad.Policy.Failure = &policy.Failure{At: at, Error: "does not compile"}
	bad.Parts = map[string]any{
		"audit":    audit.Status{Anchor: &audit.AnchorStatus{Failing: "no such disk"}},
		"disk":     diskspace.Use{Free: 1 << 20, Low: true, Full: 3, Unheld: "not \x1b[31mhere"},
		"other":    7,
		"projects": []projects.Status{{Problem: "the project /\x1b[31mx is gone"}},
	}
	text := showStatus(bad, review.Screen{Width: 40, Terminal: true})
	for _, want := range []string{
		"! what it holds now was refused at 2026-01-02 03:04:05: line 3: unknown key; line 4: another",
		"! what the files hold now could not be loaded: does not compile",
		"! 1.0 MiB free, 0 bytes of them kept for the record; sessions keep 0 bytes; agents are refused until there is",
		"! 3 accounts keep too much and are refused; the log of the daemon names them",
		`! the log and the database have no blocks in reserve: not \u{1b}[31mhere`, "other 7",
		`! missing: netns: \u{1b}[31mno`, `! the project /\u{1b}[31mx is gone`, "! advisory:", "! the record is not anchored: no such disk", "2 waiting for a person: sandboxd approvals watch",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("the status lacks %q:\n%s", want, text)
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if n := len([]rune(line)); n > 40 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

// Where the agent is another user than the daemon, tools with the rights of the daemon are more than it could do.
func TestStatusSaysWhoseRightsToolsHave(t *testing.T) {
	for _, tt := range []struct{ split, rights, want string }{
		{"enforced", "daemon", "rights     ! tools have the rights of the daemon, whoever calls; docs/security.md, rights of"},
		{"enforced", "caller", "rights     tools have the rights of the user that calls"},
	} {
		text := showStatus(api.Status{RoleSplit: tt.split, Rights: tt.rights}, review.Screen{Width: 80})
		if !strings.Contains(text, tt.want) {
			t.Errorf("%+v: the status lacks %q:\n%s", tt, tt.want, text)
		}
	}
}

// Where nothing is allowed, no session can start: that needs attention.
func TestStatusSaysThatNothingIsAllowed(t *testing.T) {
	text := showStatus(api.Status{Parts: map[string]any{"projects": []projects.Status{}}}, review.Screen{Width: 80})
	if want := "projects   ! none is allowed, so no session can start: sandboxd allow DIR"; !strings.Contains(text, want) {
		t.Errorf("the status lacks %q:\n%s", want, text)
	}
}

// Who waits reads what a person is asked, and the command that answers.
func TestWhatAPersonIsAskedFor(t *testing.T) {
	for typ, want := range map[string]string{
		"execution":  "allow this call (because); answer with: sandboxd approvals approve apr_1",
		"result":     "let the model see the result (because); answer with: sandboxd approvals approve apr_1",
		"changes":    "let what the call changed stay (because); answer with: sandboxd approvals approve apr_1",
		"connection": "let the call connect (because); answer with: sandboxd approvals approve apr_1",
		"question":   "answer the model (because); answer with: sandboxd approvals answer apr_1 TEXT",
	} {
		var out strings.Builder
		at := time.Unix(0, 0)
		sayWaiting(&out)(client.Progress{Waiting: &client.Waiting{
			Type: typ, Approval: "apr_1", Why: []client.Reason{{Message: "because"}}, Asked: at, Until: at.Add(time.Minute),
		}})
		if got := out.String(); got != "waiting up to 1m0s for an operator to "+want+"\n" {
			t.Errorf("%s: %s", typ, got)
		}
	}
}
