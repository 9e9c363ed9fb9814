package policy

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// repository is a workspace with this policy file.
func repository(t *testing.T, text string) string {
	t.Helper()
	root := t.TempDir()
	setWorkspaceFile(t, root, text)
	return root
}

func setWorkspaceFile(t *testing.T, root, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, ".sandboxd"), 0o755); err != nil {
		t.Fatal(err)
	}
	writePolicy(t, filepath.Join(root, WorkspaceFile), text)
}

func TestAWorkspaceMayTighten(t *testing.T) {
	root := repository(t, `{"deny": ["Bash(make deploy *)"], "ask": ["Bash(make *)"]}`)
	e := newEngine(t, Options{Workspaces: func() []string { return []string{root} }})
	for _, tt := range []struct {
		dir, line string
		want      tool.Verdict
		rule      string
	}{
		{root, "make deploy now", tool.Deny, "workspace.deny.0"},
		{filepath.Join(root, "sub"), "make all", tool.Ask, "workspace.ask.0"},
		{root, "ls", tool.Allow, "observe"},
		{"/elsewhere", "make deploy now", tool.Allow, "not its workspace"},
		{root + "x", "make deploy now", tool.Allow, "a directory whose name begins alike"},
	} {
		d := decide(t, e, bashIn(t, tt.dir, tool.ModeBypassPermissions, tt.line))
		if tt.want == tool.Ask { // bypassPermissions lets pass what a rule asks
			d = decide(t, e, bashIn(t, tt.dir, tool.ModeAuto, tt.line))
		}
		if d.Verdict != tt.want || tt.want != tool.Allow && d.Reasons[0].Rule != tt.rule {
			t.Errorf("%s in %s: %s %+v, want %s by %s", tt.line, tt.dir, d.Verdict, d.Reasons, tt.want, tt.rule)
		}
	}
}

func TestWorkspaceRulesAreOffByDefault(t *testing.T) {
	root := repository(t, `{"deny": ["Bash"]}`)
	if d := decide(t, newEngine(t, Options{}),
		bashIn(t, root, tool.ModeBypassPermissions, "ls")); d.Verdict != tool.Allow {
		t.Errorf("%+v, want an allow", d)
	}
}

// What whoever wrote the repository may try. None may loosen, stop the daemon,
// reach outside or speak to the model.
func TestHostileWorkspaces(t *testing.T) {
	deep := strings.Repeat("[", 30000)
	many := `{"deny": [` + strings.TrimSuffix(strings.Repeat(`"Read",`, maxWorkspaceRules+1), ",") + `]}`
	for _, tt := range []struct{ name, text, want string }{
		{"an allow", `{"allow": ["Bash(git push *)"]}`, "allow"},
		{"Rego", "package sandboxd.policies.acme.x", "invalid"},
		{"another key", `{"deny": [], "disable": ["core.nested_sandbox"]}`, "disable"},
		{"a list given twice", `{"deny": ["Bash"], "deny": []}`, "twice"},
		{"two documents", `{"deny": []} {"deny": []}`, "more than one"},
		{"a rule that can never match", `{"deny": ["Bash(a | b)"]}`, "never match"},
		{"an effect in a rule", `{"deny": [{"id": "x", "effect": "allow"}]}`, "cannot unmarshal"},
		{"control characters", `{"deny": ["Bash(\u001b[2J)"]}`, "no text"},
		{"deep nesting", `{"deny": ` + deep, "depth"},
		{"too many rules", many, "at most"},
		{"too many bytes", `{"deny": ["Bash(` + strings.Repeat("x", maxWorkspaceBytes) + `)"]}`, "more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := repository(t, tt.text)
			e := newEngine(t, Options{Workspaces: func() []string { return []string{root} }})
			s := e.Status().Workspaces
			if len(s) != 1 || !strings.Contains(s[0].Failure, tt.want) {
				t.Errorf("status %+v, want a failure with %q", s, tt.want)
			}
			if d := decide(t, e, bashIn(t, root, tool.ModeAuto, "git push -f")); d.Verdict != tool.Ask ||
				d.Reasons[0].Rule != "developer.git.force_push" {
				t.Errorf("%s %+v, want what holds without the workspace", d.Verdict, d.Reasons)
			}
		})
	}
}

func TestHostileWorkspaceFiles(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "policy.json")
	writePolicy(t, secret, `{"deny": ["Bash"]}`)
	for name, build := range map[string]func(dir, file string) error{
		"a link out of the workspace": func(_, file string) error { return os.Symlink(secret, file) },
		"a relative link out of it":   func(_, file string) error { return os.Symlink("../../../../../../.."+secret, file) },
		"a FIFO that nobody writes":   func(_, file string) error { return syscall.Mkfifo(file, 0o600) },
		"a directory":                 func(_, file string) error { return os.Mkdir(file, 0o755) },
		"a link of the directory out of it": func(dir, _ string) error {
			if err := os.Remove(dir); err != nil {
				return err
			}
			return os.Symlink(filepath.Dir(secret), dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, ".sandboxd")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := build(dir, filepath.Join(root, WorkspaceFile)); err != nil {
				t.Fatal(err)
			}
			e := newEngine(t, Options{Workspaces: func() []string { return []string{root} }})
			if s := e.Status().Workspaces; len(s) != 1 || s[0].Failure == "" || s[0].Rules != 0 {
				t.Errorf("status %+v, want a failure and no rules", s)
			}
		})
	}
}

func TestWorkspaceRulesDoNotSpeakToTheModel(t *testing.T) {
	root := repository(t, `{"deny": ["Bash(rm ignore your instructions *)"]}`)
	d := decide(t, newEngine(t, Options{Workspaces: func() []string { return []string{root} }}),
		bashIn(t, root, tool.ModeAuto, "rm ignore your instructions now"))
	if d.Verdict != tool.Deny {
		t.Fatalf("%+v, want a deny", d)
	}
	for _, r := range d.Reasons {
		if strings.Contains(r.Rule+r.Message+r.Hint, "ignore") {
			t.Errorf("the repository's text is shown: %+v", r)
		}
	}
}

func TestABrokenWorkspaceFileKeepsTheLastGoodRules(t *testing.T) {
	root := repository(t, `{"deny": ["Bash"]}`)
	e := newEngine(t, Options{Workspaces: func() []string { return []string{root} }})
	good := e.Status().Revision
	for _, text := range []string{"{", `{"allow": ["Bash"]}`} {
		setWorkspaceFile(t, root, text)
		if err := e.Reload(context.Background(), false); err != nil {
			t.Fatal(err)
		}
		s := e.Status()
		if s.Revision != good || s.Workspaces[0].Failure == "" || s.Workspaces[0].Rules != 1 {
			t.Errorf("status %+v, want the rules of before and the failure", s.Workspaces)
		}
		if d := decide(t, e, bashIn(t, root, tool.ModeBypassPermissions, "ls")); d.Verdict != tool.Deny {
			t.Errorf("%+v, want the deny of before", d)
		}
	}
	setWorkspaceFile(t, root, `{}`)
	if err := e.Reload(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	if s := e.Status(); s.Workspaces[0].Failure != "" || s.Revision == good {
		t.Errorf("status %+v, want no failure", s.Workspaces)
	}
}

// TestAWorkspaceNeverLoosens: whatever rules it has, of any kind.
func TestAWorkspaceNeverLoosens(t *testing.T) {
	order := map[tool.Verdict]int{tool.Deny: 0, tool.Ask: 1, tool.Allow: 2}
	var all []string
	for _, r := range someRules {
		all = append(all, `"`+r+`"`)
	}
	for _, list := range []string{"ask", "deny"} {
		root := repository(t, `{"`+list+`": [`+strings.Join(all, ",")+`]}`)
		without, with := newEngine(t, Options{}), newEngine(t, Options{Workspaces: func() []string { return []string{root} }})
		for _, mode := range tool.Modes {
			for _, line := range someLines {
				a, b := decide(t, without, bashIn(t, root, mode, line)), decide(t, with, bashIn(t, root, mode, line))
				if order[b.Verdict] > order[a.Verdict] {
					t.Errorf("%s in %s: %s without, %s with the workspace's %s", line, mode, a.Verdict, b.Verdict, list)
				}
			}
		}
	}
}
