package skills

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox"
)

func TestK08_AUserDirectoryThatAgentsWriteIsTheirs(t *testing.T) {
	w := newWorld(t, Config{})
	w.session.Dir = w.home
	w.write("home/.claude/skills/a/SKILL.md", "---\ndescription: d\n---\nx\n")
	if _, found := w.set().Find("a"); found {
		t.Error("a session that works at home has written a skill of the user")
	}
	w.session.Dir = w.work
	w.write("work/own/SKILL.md", "---\ndescription: d\n---\nx\n")
	if err := os.Symlink(filepath.Join(w.work, "own"), filepath.Join(w.home, ".claude/skills/own")); err != nil {
		t.Fatal(err)
	}
	if _, found := w.set().Find("own"); found || len(w.set().Ignored) != 1 {
		t.Errorf("a link of the user leads to the workspace: %v, %v", found, w.set().Ignored)
	}
}

// A SKILL.md of the user that leads to a file of the workspace is written by whoever writes that.
func TestK08_AFileOfTheUserThatLeadsToTheWorkspace(t *testing.T) {
	w := newWorld(t, Config{})
	w.write("home/.claude/skills/own/x", "")
	w.write("work/own.md", "---\ndescription: d\n---\nx\n")
	w.write("dotfiles/mine.md", "---\ndescription: d\n---\nx\n")
	w.write("home/.claude/skills/mine/x", "")
	for name, to := range map[string]string{"own": "work/own.md", "mine": "dotfiles/mine.md"} {
		if err := os.Symlink(filepath.Join(w.root, to), filepath.Join(w.home, ".claude/skills", name, "SKILL.md")); err != nil {
			t.Fatal(err)
		}
	}
	if _, found := w.set().Find("own"); found || len(w.set().Ignored) != 1 {
		t.Errorf("agents write a skill of the user: %v", w.set().Ignored)
	}
	if w.find("mine").Source != User {
		t.Error("a link of the user is not the user's")
	}
}

// Where skills of the workspace are off, the directories that do not count are named, and the setting.
func TestK08_WhatIsOffIsTold(t *testing.T) {
	w := newWorld(t, Config{})
	off := func() string {
		return fmt.Sprint(w.f.where(sandbox.Daemon()).off(w.work))
	}
	if got := off(); got != "[]" {
		t.Errorf("got %s", got)
	}
	w.write("work/.claude/skills/a/SKILL.md", "---\ndescription: d\n---\nx\n")
	w.write("home/.agents/skills/b/SKILL.md", "---\ndescription: d\n---\nx\n")
	w.roots = []string{w.home}
	got := off()
	for _, dir := range []string{"work/.claude/skills", "home/.agents/skills"} {
		if !strings.Contains(got, "{"+filepath.Join(w.root, dir)+" agents write there") {
			t.Errorf("%s is not told: %s", dir, got)
		}
	}
	if !strings.Contains(got, "skills.workspace: true") {
		t.Errorf("got %s", got)
	}
	w.f.config.Store(&Config{Workspace: true})
	if got := off(); got != "[]" {
		t.Errorf("got %s", got)
	}
}

// A skill of the workspace that takes a name is told wherever it shows, and takes no alias.
func TestK06_K07_ATakenNameIsTold(t *testing.T) {
	w := newWorld(t, Config{Workspace: true})
	w.write("home/.claude/skills/mine/SKILL.md", "---\ndescription: d\naliases: m\n---\nm\n")
	w.write("work/.agents/skills/commit/SKILL.md", "---\ndescription: d\naliases: cr, x\n---\nfirst\n")
	w.write("work/.claude/skills/commit/SKILL.md", "---\ndescription: d\naliases: cr, x\n---\nsecond\n")
	w.write("work/.claude/skills/mine/SKILL.md", "---\ndescription: d\naliases: m\n---\ntheirs\n")
	w.write("work/.claude/skills/diagnose/SKILL.md", "---\ndescription: d\n---\nd\n")
	w.write("work/.claude/skills/other/SKILL.md", "---\ndescription: d\naliases: investigate\n---\no\n")
	for name, want := range map[string]string{
		"commit":   "it takes the place of the built-in skill of its name; the alias cr stays with the skill review",
		"mine":     "it takes the place of the user's skill of its name",
		"diagnose": "its name was an alias of the skill debug",
		"other":    "the alias investigate stays with the skill debug",
	} {
		for range 2 { // a second time from what the library keeps
			k := w.find(name)
			if got := strings.Join(k.Diagnostics, "; "); k.Source != Workspace || got != want {
				t.Errorf("%s of %s: got %q, want %q", name, k.Source, got, want)
			}
			out, err := w.call("c", `{"skill":"`+name+`"}`)
			if told := strings.Contains(out.Text, "The repository wrote it: it takes the place of"); err != nil ||
				told != strings.Contains(want, "place of") {
				t.Errorf("%s: %q, %v", name, out.Text, err)
			}
			w.session.Skills = nil
		}
	}
	for name, want := range map[string]string{"commit": `"replaces":"builtin"`, "mine": `"replaces":"user"`} {
		got, err := json.Marshal(w.find(name))
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("the JSON of %s has no %s: %s, %v", name, want, got, err)
		}
	}
	for alias, want := range map[string]string{"cr": "review", "x": "commit", "m": "mine", "investigate": "debug"} {
		if k, _ := w.set().Find(alias); k.Name != want {
			t.Errorf("%s is %q, want %q", alias, k.Name, want)
		}
	}
}

// TestK08_AUserDirectoryWithinARootIsTheirsToo: agents write everywhere in the roots, not only where
// their session works.
func TestK08_AUserDirectoryWithinARootIsTheirsToo(t *testing.T) {
	for _, workspace := range []bool{false, true} {
		w := newWorld(t, Config{Workspace: workspace})
		w.write("home/.agents/skills/a/SKILL.md", "---\ndescription: d\n---\nx\n")
		w.write("other/own/SKILL.md", "---\ndescription: d\n---\nx\n")
		other := filepath.Join(filepath.Dir(w.home), "other")
		for _, dir := range []string{".claude/skills", ".config/agents/skills"} {
			if err := os.MkdirAll(filepath.Join(w.home, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(filepath.Join(other, "own"), filepath.Join(w.home, ".claude/skills/own")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "own"} {
			if k, found := w.set().Find(name); !found || k.Source != User {
				t.Errorf("without a root: %s is %+v", name, k)
			}
		}
		w.roots = []string{w.home, other}
		if k, found := w.set().Find("a"); found != workspace || found && k.Source != Workspace {
			t.Errorf("workspace %v: it is %+v", workspace, k)
		}
		if k, found := w.set().Find("own"); found && k.Source == User {
			t.Errorf("workspace %v: a link is %+v", workspace, k)
		}
	}
}
