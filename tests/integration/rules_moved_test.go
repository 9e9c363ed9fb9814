package integration

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// dry is the verdict about a call that does not run.
func (d *running) dry(session, name, args string) string {
	d.t.Helper()
	var out struct {
		Decision struct{ Verdict string }
	}
	body := map[string]any{"tool": name, "args": json.RawMessage(args), "dry_run": true}
	if err := d.agent.Do(d.t.Context(), "POST", "/sessions/"+session+"/calls", body, &out); err != nil {
		d.t.Fatalf("%s %s: %v", name, args, err)
	}
	return out.Decision.Verdict
}

// TestTheModelMovesNoRule: rules with relative paths hold where the session began, after cd, in a worktree, in a
// session that begins further down, in one below it, and for the hook of another agent.
func TestTheModelMovesNoRule(t *testing.T) {
	t.Parallel()
	d := newPlaces(t, `policy:
  workspace: true
  rules:
    deny: ["Read(/keys/**)", "Edit(/docs/**)", "Edit(*.lock)"]
    ask: ["Edit(/cfg/**)"]
    allow: ["Edit(/build/**)"]
`)
	for _, name := range []string{"keys/a.txt", "docs/a", "cfg/a", "build/a", "a.lock", "own/a", "sub/build/a", "sub/b"} {
		d.write("ws/"+name, "SECRET\n")
	}
	d.write("ws/.sandboxd/policy.json", `{"deny": ["Read(/own/**)"]}`)
	d.start()
	git := d.repository()
	git("add", "build", "sub")
	git("commit", "-qnm", "two")
	made := func(body map[string]any) string {
		t.Helper()
		var s client.Session
		if err := d.agent.Do(t.Context(), "POST", "/sessions", body, &s); err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	begun := made(map[string]any{"mode": "default"})
	sub := d.ws + "/sub"
	moved, entered := made(map[string]any{"mode": "default"}), made(map[string]any{"mode": "default"})
	if r := d.call(moved, "Bash", `{"command":"cd sub"}`); r.Status != client.StatusSuccess || d.cwd(moved) != sub {
		t.Fatalf("%+v", r)
	}
	if r := d.asked(t, entered, "EnterWorktree", `{"name":"x"}`, yes); r.Status != client.StatusSuccess {
		t.Fatalf("%+v", r)
	}
	below := made(map[string]any{"parent": moved, "agent": "b", "cwd": sub})
	forked := d.must(d.agent, "POST", "/sessions/"+moved+"/fork", `{}`)
	var fork struct{ ID string }
	if err := json.Unmarshal(forked, &fork); err != nil || fork.ID == "" {
		t.Fatalf("%s %v", forked, err)
	}
	began := map[string]bool{ // whether in the top
		begun: true, moved: true, entered: true, below: true, fork.ID: true,
		made(map[string]any{"mode": "default", "cwd": sub}): false,
	}
	edit := func(path string) string {
		return `{"file_path":"` + path + `","old_string":"SECRET","new_string":"x"}`
	}
	write := func(path string) string { return `{"file_path":"` + path + `","content":"x"}` }
	for s, top := range began {
		allowed := map[bool]string{true: "allow", false: "ask"}
		for _, tt := range []struct{ tool, args, want string }{
			{"Read", `{"file_path":"` + d.ws + `/keys/a.txt"}`, "deny"},
			{"Read", `{"file_path":"` + d.ws + `/own/a"}`, "deny"},
			{"Bash", `{"command":"cat ` + d.ws + `/keys/a.txt"}`, "deny"},
			{"Bash", `{"command":"grep -rn SECRET ` + d.ws + `"}`, "deny"},
			{"Bash", `{"command":"cd ` + d.ws + `; grep -rn SECRET .."}`, "deny"},
			{"Bash", `{"command":"mv ` + d.ws + `/keys ` + d.ws + `/k2"}`, "deny"},
			{"Bash", `{"command":"cd ` + d.ws + `; git grep SECRET"}`, "deny"},
			{"Bash", `{"command":"git blame ` + d.ws + `/keys/a.txt"}`, "deny"},
			{"Bash", `{"command":"echo x >> ` + d.ws + `/a.lock"}`, "deny"},
			{"Edit", edit(d.ws + "/docs/a"), "deny"},
			{"Edit", edit(d.ws + "/cfg/a"), "ask"},
			{"Write", write(d.ws + "/build/a"), allowed[top]},
			{"Write", write(sub + "/build/a"), allowed[!top]},
		} {
			if got := d.dry(s, tt.tool, tt.args); got != tt.want {
				t.Errorf("in %s, %s %s: %s, want %s", d.cwd(s), tt.tool, tt.args, got, tt.want)
			}
		}
	}
	tree := d.ws + "/.worktrees/x"
	if got := d.dry(entered, "Write", write(tree+"/build/a")); got != "allow" {
		t.Errorf("an allow holds no more in the worktree: %s", got)
	}
	if got := d.dry(moved, "Write", write(tree+"/build/a")); got != "ask" {
		t.Errorf("an allow holds in a worktree that the session has not entered: %s", got)
	}
	if r := d.call(moved, "Read", `{"file_path":"../keys/a.txt"}`); r.Status == client.StatusSuccess {
		t.Errorf("%+v", r)
	}

	// Claude Code asks from where the model went, and names its project.
	hook := func(session, cwd, project, name, input string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, "sandboxd"), "hook")
		cmd.Env = append(slices.Clone(d.env), "CLAUDE_PROJECT_DIR="+project)
		cmd.Stdin = strings.NewReader(`{"session_id":"` + session + `","cwd":"` + cwd + `","hook_event_name":"PreToolUse",` +
			`"tool_name":"` + name + `","tool_input":` + input + `}`)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, tt := range []struct{ project, name, input, want string }{
		{d.ws, "Read", `{"file_path":"` + d.ws + `/keys/a.txt"}`, "deny"},
		{"", "Read", `{"file_path":"` + d.ws + `/keys/a.txt"}`, "deny"},
		{"/", "Edit", edit(d.ws + "/docs/a"), "deny"},
	} {
		if got := hook("hooked"+tt.project, sub, tt.project, tt.name, tt.input); !strings.Contains(got, `:"`+tt.want+`"`) {
			t.Errorf("%s of the project %q: %s, want %s", tt.name, tt.project, got, tt.want)
		}
	}
}

// TestTheRulesOfAnAgentInAWorktree: what its parent may not read it may not read either, there and in the worktree. What
// a rule allows is in the worktree.
func TestTheRulesOfAnAgentInAWorktree(t *testing.T) {
	t.Parallel()
	d := newAgents(t, `top=${cwd%/.worktrees/*}
for path in "$top/app/keys/a" "$cwd/keys/a"; do call Read "{\"file_path\":\"$path\"}"; done > $here/read
for path in "$cwd/build/n" "$top/app/build/n"; do
	ask -d "{\"tool\":\"Write\",\"dry_run\":true,\"args\":{\"file_path\":\"$path\",\"content\":\"x\"}}" "http://x/sessions/$id/calls"
done > $here/wrote
echo "{\"text\":\"$cwd\"}"`, `policy: {rules: {deny: ["Read(/keys/**)"], allow: ["Write(/build/**)", "Agent"]}}
`)
	for _, name := range []string{"keys/a", "build/a"} {
		d.write("ws/app/"+name, "SECRET\n")
	}
	git := d.repository()
	git("add", "app")
	git("commit", "-qnm", "two")
	var s client.Session
	d.does(d.agent, "POST", "/sessions", map[string]any{"mode": "default", "cwd": d.ws + "/app"}, &s)
	r := d.call(s.ID, "Agent", ask+`,"isolation":"worktree","name":"w"}`)
	if r.Status != client.StatusSuccess || !strings.Contains(r.FinalText, d.ws+"/.worktrees/w/app") {
		t.Fatalf("%s %s", r.Status, r.FinalText)
	}
	if said := d.read("spawn/read"); strings.Contains(said, "SECRET") || strings.Count(said, `deny Read(/keys/**)`) < 2 {
		t.Errorf("the agent read %s", said)
	}
	said := d.read("spawn/wrote")
	if allowed, asked := strings.Index(said, `"verdict":"allow"`), strings.Index(said, `"verdict":"ask"`); allowed < 0 || asked < allowed {
		t.Errorf("want an allow in the worktree, and none beside it: %s", said)
	}
}
