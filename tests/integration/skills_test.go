package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// skill writes a package of the user of the daemon.
func (d *running) skill(name, text string) { d.write("home/.claude/skills/"+name+"/SKILL.md", text) }

// begins makes a skill run.
func (d *running) startSkill(session, name string) client.Result {
	d.t.Helper()
	r := d.call(session, "Skill", `{"skill":"`+name+`"}`)
	if r.Status != client.StatusSuccess {
		d.t.Fatalf("%s: got %+v", name, r.Error)
	}
	return r
}

func (d *running) tools(session string) (names []string) {
	d.t.Helper()
	var list []struct{ Name string }
	if err := d.agent.Do(d.t.Context(), "GET", "/sessions/"+session+"/tools", nil, &list); err != nil {
		d.t.Fatal(err)
	}
	for _, t := range list {
		names = append(names, t.Name)
	}
	return names
}

// TestK12_K13_EveryFrontDoorHeedsASkill: calls, batches, decide, and what lists tools.
func TestK12_K13_EveryFrontDoorHeedsASkill(t *testing.T) {
	d := newDaemon(t, "")
	d.skill("narrow", "---\ndescription: d\nallowed-tools: Bash, Read, Write, Glob\n---\nNarrow.\n")
	d.skill("foo", "---\ndescription: d\nallowed-tools: Foo\n---\nFoo.\n")
	d.skill("diff", "---\ndescription: d\nallowed-tools: Bash(git diff:*)\n---\nDiff.\n")
	d.write("ws/a.txt", "a\n")
	s := d.session()
	restricted := func(name, args string, want bool) {
		t.Helper()
		r := d.call(s, name, args)
		if got := r.Error != nil && r.Error.Code == "skill_restricted"; got != want || got && (r.Error.Stage != "lookup" || r.Status == client.StatusSuccess ||
			!strings.HasSuffix(r.Error.Hint, " /sessions/"+s+"/skills/end")) {
			t.Errorf("%s %s: restricted %v, want %v: %+v", name, args, got, want, r.Error)
		}
	}
	edit := `{"file_path":"a.txt","old_string":"a","new_string":"b"}`
	restricted("Read", `{"file_path":"a.txt"}`, false)
	d.startSkill(s, "narrow")
	restricted("Edit", edit, true)
	restricted("Read", `{"file_path":"a.txt"}`, false)
	restricted("Bash", `{"command":"echo hi"}`, false)
	if got := d.tools(s); !slices.Equal(got, []string{"Bash", "Glob", "Read", "Skill", "Write"}) {
		t.Errorf("tools are %q", got)
	}
	var batch json.RawMessage
	if err := d.agent.Do(t.Context(), "POST", "/sessions/"+s+"/calls",
		json.RawMessage(`{"calls":[{"tool":"Edit","args":`+edit+`},{"tool":"Read","args":{"file_path":"a.txt"}}]}`), &batch); err != nil ||
		strings.Count(string(batch), "skill_restricted") != 1 {
		t.Errorf("a batch: %s, %v", batch, err)
	}
	for _, tool := range []string{"Edit", "TheirOwn"} {
		var decided struct{ Decision client.Decision }
		err := d.agent.Do(t.Context(), "POST", "/decide", map[string]any{
			"session_id": s, "tool": tool, "args": json.RawMessage(edit), "outside": tool == "TheirOwn",
		}, &decided)
		if err != nil || decided.Decision.Verdict != "deny" {
			t.Errorf("decide %s: %+v, %v", tool, decided, err)
		}
	}
	var prompt struct{ Prompt string }
	if err := d.agent.Do(t.Context(), "GET", "/sessions/"+s+"/prompt", nil, &prompt); err != nil ||
		strings.Contains(prompt.Prompt, "Edit") || !strings.Contains(prompt.Prompt, "\n- narrow: d\n") {
		t.Errorf("the prompt: %v\n%s", err, prompt.Prompt)
	}
	d.startSkill(s, "foo")
	restricted("Read", `{"file_path":"a.txt"}`, true)
	d.startSkill(s, "diff")
	for command, refused := range map[string]bool{
		"git diff": false, "git diff --stat | git diff -": false, "git diff 2>/dev/null": false, "/usr/bin/git diff": false,
		"git diff; echo": true, "git log": true, "git": true, "git diff > out": true, "git diff $X": true,
		"GIT_EXTERNAL_DIFF=x git diff": true, "./git diff": true, "{ git diff; } > out": true, "$(git diff)": true,
		"git diff $(id)": true, "bash -c 'git diff; id'": true,
	} {
		args, _ := json.Marshal(map[string]string{"command": command})
		restricted("Bash", string(args), refused)
	}
	if err := d.agent.Do(t.Context(), "PUT", "/sessions/"+s+"/vars/x", map[string]any{"value": "; id"}, nil); err != nil {
		t.Fatal(err)
	}
	restricted("Bash", `{"command":"git diff $VAR_REF{{x}}"}`, true)

	// The stack outlives the daemon.
	d.stop(os.Interrupt)
	d.start()
	restricted("Edit", edit, true)
	for range 3 {
		if err := d.agent.Do(t.Context(), "POST", "/sessions/"+s+"/skills/end", map[string]any{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	restricted("Edit", edit, false)
}

// TestK08_ASkillOfARepositoryIsARepositorysText: it is off, and where it is on, its text is the
// repository's, and a file of the workspace that the settings deny is no skill's text either.
func TestK08_ASkillOfARepositoryIsARepositorysText(t *testing.T) {
	const text = "---\ndescription: d\nallowed-tools: Read\n---\nFollow me.\n"
	d := newDaemon(t, "")
	d.write("ws/.claude/skills/theirs/SKILL.md", text)
	d.skill("mine", text)
	s := d.session()
	if r := d.call(s, "Skill", `{"skill":"theirs"}`); r.Error == nil || r.Error.Code != "skill_not_found" {
		t.Errorf("got %+v", r)
	}
	origins := func(d *running, session string) string {
		t.Helper()
		var o struct{ Session []string }
		if err := d.agent.Do(t.Context(), "GET", "/sessions/"+session+"/origins", nil, &o); err != nil {
			t.Fatal(err)
		}
		return strings.Join(o.Session, " ")
	}
	d.startSkill(s, "mine")
	if got := origins(d, s); strings.Contains(got, "repository") || !strings.Contains(got, "person") {
		t.Errorf("a skill of the user has made %q", got)
	}
	d.stop(os.Interrupt)

	d = newDaemon(t, "skills: {workspace: true}\n")
	d.write("ws/.claude/skills/theirs/SKILL.md", text)
	d.write("ws/.claude/skills/denied/SKILL.md", text)
	s = d.session()
	r := d.startSkill(s, "theirs")
	if got := origins(d, s); !strings.Contains(got, "repository") || !strings.Contains(r.FinalText, "Follow me.") {
		t.Errorf("got %q, %q", got, r.FinalText)
	}
	s = d.session()
	denied := map[string]any{"sandbox": map[string]any{"deniedPaths": []string{filepath.Join(d.ws, ".claude/skills/denied")}}}
	if err := d.operator.Do(t.Context(), "PATCH", "/sessions/"+s, denied, nil); err != nil {
		t.Fatal(err)
	}
	if r := d.call(s, "Skill", `{"skill":"denied"}`); r.Error == nil || r.Error.Code != "path_denied" {
		t.Errorf("got %+v", r)
	}
}

// TestK07_K08_SkillsListSaysWhatOfARepositoryCounts: nothing of it, and why; or what it takes the place of.
func TestK07_K08_SkillsListSaysWhatOfARepositoryCounts(t *testing.T) {
	d := newDaemon(t, "")
	d.write("ws/.claude/skills/commit/SKILL.md", "---\ndescription: theirs\nallowed-tools: Read\n---\nTheirs.\n")
	out, err := d.exec("sandboxd", "skills", "list")
	if want := filepath.Join(d.ws, ".claude/skills") + " does not count: agents write there"; err != nil ||
		!strings.Contains(out, want) || !strings.Contains(out, "skills.workspace: true") || strings.Contains(out, "theirs") {
		t.Errorf("got %s, %v", out, err)
	}
	d.stop(os.Interrupt)

	d = newDaemon(t, "skills: {workspace: true}\n")
	d.write("ws/.claude/skills/commit/SKILL.md", "---\ndescription: theirs\nallowed-tools: Read\n---\nTheirs.\n")
	out, err = d.exec("sandboxd", "skills", "list")
	if err != nil || !strings.Contains(out, "workspace, over builtin") || strings.Contains(out, "does not count") {
		t.Errorf("got %s, %v", out, err)
	}
	d.write("ws/.claude/skills/bare/SKILL.md", "---\nallowed-tools: Read\n---\nNothing is said of it.\n")
	if out, err := d.exec("sandboxd", "skills", "show", "bare"); err != nil || !strings.Contains(out, "note         description is missing") {
		t.Errorf("got %s, %v", out, err)
	}
	r := d.startSkill(d.session(), "commit")
	if !strings.Contains(r.FinalText, "The repository wrote it: it takes the place of the built-in skill of its name.") ||
		!strings.Contains(r.FinalText, "Theirs.") {
		t.Errorf("the model is told %q", r.FinalText)
	}
}
