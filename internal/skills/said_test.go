package skills

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// TestK16_TheModelReadsAHundredNames of supporting files, and how many more there are.
func TestK16_TheModelReadsAHundredNames(t *testing.T) {
	files := make([]string, 102)
	for i := range files {
		files[i] = fmt.Sprint("f", i)
	}
	dir := "/skills/s"
	for _, tt := range []struct {
		b          began
		want, lack string
	}{
		{began{CommandName: "s", Prompt: "Do it."}, "Skill s (builtin).\n\nDo it.", "Supporting files"},
		{began{CommandName: "s", BaseDir: &dir}, "\nBase directory: /skills/s\n", "can be called"},
		{
			began{CommandName: "s", AllowedTools: []string{"read"}},
			"Until it ends, these can be called: read, Skill.", "Base directory",
		},
		{
			began{CommandName: "s", SupportingFiles: files[:100]},
			"Supporting files, read them when needed: f0, f1,", "more",
		},
		{began{CommandName: "s", SupportingFiles: files}, ", f99 and 2 more\n", "f100"},
	} {
		got := tt.b.text(Skill{Source: Builtin})
		if !strings.Contains(got, tt.want) || strings.Contains(got, tt.lack) {
			t.Errorf("got %q, want %q and not %q", got, tt.want, tt.lack)
		}
	}
}

// TestK19_RefusalsOfSkillSayWhatToDo.
func TestK19_RefusalsOfSkillSayWhatToDo(t *testing.T) {
	w := newWorld(t, Config{})
	w.write("home/.claude/skills/self/SKILL.md", "---\nallowed-tools: Read, Skill\n---\n")
	refused := func(args, msg, hint string) {
		t.Helper()
		_, err := w.run("c", args)
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || !strings.Contains(e.Msg, msg) || !strings.Contains(e.Hint, hint) {
			t.Errorf("%s: got %+v, want %q and %q", args, e, msg, hint)
		}
	}
	refused(`{"skill":"self"}`, `"self" names Skill in allowed-tools`, "take Skill out of allowed-tools")
	if k := w.find("self"); !strings.Contains(
		strings.Join(k.Diagnostics, "\n"),
		"which cannot be restricted: it does not run",
	) {
		t.Errorf("its diagnostics are %q", k.Diagnostics)
	}
	for i := range maxDepth {
		if _, err := w.run(fmt.Sprint("d", i), `{"skill":"ci"}`); err != nil {
			t.Fatal(err)
		}
	}
	refused(`{"skill":"ci"}`, "4 skills run in this session", "POST /sessions/s/skills/end")
}

// TestK24_ASkillIsShownWithItsArguments; the list of what is ignored has none that runs.
func TestK24_ASkillIsShownWithItsArguments(t *testing.T) {
	w := newWorld(t, Config{})
	w.write("home/.claude/skills/h/SKILL.md", "---\ndescription: x\n---\nDo $ARGUMENTS now.\n")
	for line, want := range map[string]string{
		"GET /sessions/s/skills/h":                   `"prompt":"Do $ARGUMENTS now."`,
		"GET /sessions/s/skills/h?arguments=this":    `"prompt":"Do this now."`,
		"GET /sessions/s/skills/h?arguments=":        `"prompt":"Do  now."`,
		"GET /sessions/s/skills?format=prompt":       `- h`,
		"GET /sessions/s/skills/none?arguments=this": "skill_not_found: ",
	} {
		if got := routetest.Call(t, w.f.routes(), tool.RoleAgent, line, ""); !strings.Contains(got, want) {
			t.Errorf("%s: got %.300s, want %s", line, got, want)
		}
	}
	if got := routetest.Call(t, w.f.routes(), tool.RoleAgent, "GET /sessions/s/skills?format=ignored", ""); got != "[]" {
		t.Errorf("ignored are %.300s", got)
	}
	if got := w.f.lists(w.session); !strings.HasPrefix(got, "Skills that Skill begins, by name:\n") {
		t.Errorf("the prompt has %.80q", got)
	}
}
