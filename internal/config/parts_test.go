package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/part"
)

// notes is the section of a part.
type notes struct {
	Most  int      `yaml:"most"`
	Books []string `yaml:"books"`
}

func (n *notes) Trusts() map[string][]string { return map[string][]string{"books": n.Books} }

func (n *notes) Check() error {
	if n.Most < 1 {
		return errors.New("most is less than 1")
	}
	return nil
}

func withNotes() []part.Definition {
	return []part.Definition{
		{Name: "bare"},
		{
			Name: "notes", Config: func() part.Config { return &notes{Most: 3} },
			Describe: func(part.Config) part.Part { return part.Part{Groups: []catalog.Group{{Name: "notebook"}}} },
		},
	}
}

func TestTheSectionOfAPart(t *testing.T) {
	h := newHome(t)
	for _, tt := range []struct {
		name, text, want string
		most             int
	}{
		{"none", "", "", 3},
		{"one", "notes: {most: 9}\n", "", 9},
		{"one that the part refuses", "\nnotes: {most: 0}\n", ":2: notes: most is less than 1", 0},
		{"an unknown key", "notes:\n  least: 1\n", `:2: notes: unknown key "least"`, 0},
		{"a wrong type", "notes:\n  most: many\n", ":2: notes.most: want a whole number", 0},
		{"the section of a part that has none", "bare: {a: 1}\n", `unknown key "bare"`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(Source{File: h.write(h.away, tt.text), Env: h.getenv, Dir: h.dir, Parts: withNotes()})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Parts["notes"].(*notes).Most; got != tt.most {
				t.Errorf("most is %d, want %d", got, tt.most)
			}
		})
	}
}

func TestAGroupHasWhatTheOperatorAdds(t *testing.T) {
	h := newHome(t)
	c, err := Load(Source{File: h.write(h.away, `tools:
  groups:
    notebook: {rulePrompt: "Write it down.", declareSkillRules: {how: {desc: d, prompt: p}}}
    ours: {rulePrompt: "Be brief."}
`), Env: h.getenv, Dir: h.dir, Parts: withNotes()})
	if err != nil {
		t.Fatal(err)
	}
	own := catalog.Group{
		Name: "notebook", Rules: map[string]catalog.Rule{"own": {Desc: "o", Prompt: "o"}},
		RulePrompt: func([]string) string { return "Own." },
	}
	got := c.Tools.Extend(own)
	if got.RulePrompt(nil) != "Own.\n\nWrite it down." || len(got.Rules) != 2 || got.Rules["how"].Prompt != "p" ||
		len(own.Rules) != 1 {
		t.Errorf("got %+v, prompt %q", got, got.RulePrompt(nil))
	}
	if got := c.Tools.Extend(catalog.Group{Name: "ours"}); got.RulePrompt(nil) != "Be brief." {
		t.Errorf("got %q", got.RulePrompt(nil))
	}
	if got := c.Tools.Extend(catalog.Group{Name: "other"}); got.RulePrompt != nil || got.Rules != nil {
		t.Errorf("got %+v", got)
	}
	if groups := c.OwnGroups(); len(groups) != 1 || groups[0].Name != "ours" {
		t.Errorf("groups without tools: %+v, want ours alone", groups)
	}
	if groups := c.Tools.Declared(); len(groups) != 2 || groups[0].Rules["how"].Desc != "d" {
		t.Errorf("declared: %+v", groups)
	}
}

func TestFlagsComeLast(t *testing.T) {
	h, more := newHome(t), t.TempDir()
	src := Source{
		File: h.write(h.away, "sessions: {mode: plan}\n"), Env: h.getenv, Dir: h.dir,
		Flags: map[string]string{"sessions.mode": "default", "workspace.roots": h.dir + string(filepath.ListSeparator) + more},
	}
	c, err := Load(src)
	if err != nil || c.Sessions.Mode != "default" || len(c.Workspace.Roots) != 2 {
		t.Errorf("got %v", err)
	}
	src.Flags = map[string]string{"sessions.modes": "default"}
	if _, err := Load(src); err == nil || !strings.Contains(err.Error(), "no flag sets") {
		t.Errorf("got %v", err)
	}
}

// TestADirectoryThatAPartTrustsIsOutOfReach of agents: it does not lie in what they can write, nor hold it.
func TestADirectoryThatAPartTrustsIsOutOfReach(t *testing.T) {
	h := newHome(t)
	link := filepath.Join(h.away, "link")
	if err := os.Symlink(h.dir, link); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{
		"in a root": filepath.Join(h.dir, "books"), "a root": h.dir, "around a root": filepath.Dir(h.dir),
		"by a link": filepath.Join(link, "books"),
	} {
		text := "workspace: {roots: [" + h.dir + "]}\nnotes:\n  books: [" + dir + "]\n"
		_, err := Load(Source{File: h.write(h.away, text), Env: h.getenv, Dir: h.dir, Parts: withNotes()})
		if err == nil || !strings.Contains(err.Error(), ":3: notes.books[0]: ") || !strings.Contains(err.Error(), "agents can write") {
			t.Errorf("%s: %v", name, err)
		}
	}
	text := "workspace: {roots: [" + h.dir + "]}\nnotes: {books: [" + filepath.Join(h.away, "books") + "]}\n"
	if _, err := Load(Source{File: h.write(h.away, text), Env: h.getenv, Dir: h.dir, Parts: withNotes()}); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
}
