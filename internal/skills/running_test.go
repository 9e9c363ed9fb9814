package skills

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestK20_K22_K23_TheStackOfSkills(t *testing.T) {
	w := newWorld(t, Config{})
	w.write("home/.claude/skills/a/SKILL.md", "---\nallowed-tools: Bash, Read\n---\n")
	w.write("home/.claude/skills/b/SKILL.md", "---\nallowed-tools: Grep, Glob\nmodel: m\n---\n")
	w.write("home/.claude/skills/free/SKILL.md", "---\ndescription: d\n---\n")
	w.write("home/.claude/skills/none/SKILL.md", "---\nallowed-tools:\n---\n")
	routes := w.f.routes()
	post := func(want string) {
		t.Helper()
		if got := routetest.Call(t, routes, tool.RoleAgent, "POST /sessions/s/skills/end", "{}"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	post(`{"ended":null,"running":[]}`)
	lets := func(want string) {
		t.Helper()
		var got []string
		for _, name := range []string{"Bash", "Read", "Grep", "Edit", "Skill"} {
			if w.session.Lets(name) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	lets("Bash Read Grep Edit Skill")
	w.run("1", `{"skill":"a"}`)
	lets("Bash Read Skill")
	w.run("2", `{"skill":"free"}`)
	lets("Bash Read Skill")
	w.run("3", `{"skill":"b"}`)
	lets("Grep Skill")
	got := routetest.Call(t, routes, tool.RoleAgent, "GET /sessions/s/skills/running", "")
	want := `[{"skill":"a","allowed_tools":["bash","read"],"model":null},` +
		`{"skill":"free","allowed_tools":["bash","read"],"model":null},{"skill":"b","allowed_tools":["grep","glob"],"model":"m"}]`
	if got != want {
		t.Errorf("got %s", got)
	}
	post(`{"ended":"b","running":[{"skill":"a","allowed_tools":["bash","read"],"model":null},{"skill":"free","allowed_tools":["bash","read"],"model":null}]}`)
	lets("Bash Read Skill")
	post(`{"ended":"free","running":[{"skill":"a","allowed_tools":["bash","read"],"model":null}]}`)
	post(`{"ended":"a","running":[]}`)
	lets("Bash Read Grep Edit Skill")
	w.run("4", `{"skill":"none"}`)
	lets("Skill")
}

func TestK21_CX47_AWorkspaceSkillNeverWidens(t *testing.T) {
	for _, strict := range []bool{false, true} {
		w := newWorld(t, Config{Workspace: true, StrictNesting: strict})
		w.write("home/.claude/skills/a/SKILL.md", "---\nallowed-tools: Read Bash(git diff:*)\n---\n")
		w.write("work/.claude/skills/b/SKILL.md", "---\nallowed-tools: Bash, Edit, Read\n---\n")
		w.write("home/.claude/skills/c/SKILL.md", "---\nallowed-tools: Edit, Read\n---\n")
		w.run("1", `{"skill":"a"}`)
		b, err := w.run("2", `{"skill":"b"}`)
		if err != nil || !slices.Equal(b.AllowedTools, []string{"Bash(git diff:*)", "read"}) || w.session.Lets("Edit") {
			t.Errorf("strict %v: got %q, %v", strict, b.AllowedTools, err)
		}
		if _, err := w.run("3", `{"skill":"c"}`); err != nil || w.session.Lets("Edit") == strict {
			t.Errorf("strict %v: Edit is let: %v, %v", strict, w.session.Lets("Edit"), err)
		}
	}
}

// A skill of the repository is what the repository says, one of the user what a person says.
func TestSkillsCarryTheirAuthor(t *testing.T) {
	for source, want := range map[Source]tool.Origin{
		Builtin: tool.OriginRule, User: tool.OriginPerson, Workspace: tool.OriginRepository, "": tool.OriginRepository,
	} {
		if got := source.origin(); got != want {
			t.Errorf("%s: got %s", source, got)
		}
	}
	w := newWorld(t, Config{Workspace: true})
	w.write("work/.claude/skills/b/SKILL.md", "---\ndescription: d\n---\nb\n")
	in := tool.In{Dir: w.work, Args: json.RawMessage(`{"skill":"b"}`)}
	uses, err := skillTool{w.f}.Uses(t.Context(), in)
	if err != nil || len(uses.Paths) != 1 || uses.Paths[0].Path != filepath.Join(w.work, ".claude/skills/b/SKILL.md") {
		t.Errorf("its file is not judged: %+v, %v", uses, err)
	}
	in.Judged = uses
	in.Judged.Paths[0].Raw = "/other"
	if _, err := (skillTool{w.f}).Run(t.Context(), in, fileBox{}); code(err) != "skill_changed" {
		t.Errorf("got %v", err)
	}
}

func TestAFailedCallBeginsNoSkill(t *testing.T) {
	w := newWorld(t, Config{})
	for status, want := range map[tool.Status]int{tool.StatusSuccess: 1, tool.StatusResultRejected: 0, tool.StatusError: 0} {
		w.session.Skills = nil
		if _, err := w.run("c", `{"skill":"ci"}`); err != nil {
			t.Fatal(err)
		}
		w.f.ended(&tool.Call{ID: "c", Target: tool.Target{Session: w.session}, Result: tool.Result{Status: status}})
		if got := len(w.session.Skills); got != want {
			t.Errorf("%s: %d skills run, want %d", status, got, want)
		}
	}
}

// What has not changed is not read again; what has changed is, whatever its size and time say.
func TestOnlyWhatChangedIsReadAgain(t *testing.T) {
	w := newWorld(t, Config{})
	w.write("home/.claude/skills/a/SKILL.md", "---\ndescription: one\n---\n")
	w.find("a")
	for _, s := range w.f.library.dirs { // as if it had lain there for long
		for _, e := range s.entries {
			e.settled = true
			e.skill.Description = "kept"
		}
	}
	if k := w.find("a"); k.Description != "kept" {
		t.Errorf("it was read again: %q", k.Description)
	}
	w.write("home/.claude/skills/a/extra.md", "")
	if k := w.find("a"); k.Description != "one" || len(k.SupportingFiles) != 1 {
		t.Errorf("got %q, %q", k.Description, k.SupportingFiles)
	}
	w.write("home/.claude/skills/a/SKILL.md", "---\ndescription: two\n---\n")
	if k := w.find("a"); k.Description != "two" {
		t.Errorf("got %q", k.Description)
	}
}

// changing is a file that somebody writes while it is read, a number of times.
type changing struct {
	*os.File
	times int
}

func (c *changing) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.File.ReadAt(b, at)
	if c.times--; c.times >= 0 {
		text := strings.Repeat("y", 100+c.times)
		if err := os.WriteFile(c.Name(), []byte(text), 0o644); err != nil {
			return 0, err
		}
	}
	return n, err
}

func TestASkillThatChangesWhileItIsRead(t *testing.T) {
	for times, want := range map[int]string{0: "x", 1: strings.Repeat("y", 100), 9: ""} {
		w := newWorld(t, Config{})
		w.write("f", "x")
		f, err := os.Open(filepath.Join(w.root, "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		text, _, err := steady(&changing{f, times}, true)
		if text != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "changes while it is read") {
			t.Errorf("%d times: got %q, %v", times, text, err)
		}
	}
}
