package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// on is a rule about changes of /src/a.
func on(effect, rest string) string {
	return `findings contains {"id": "acme.` + effect + `", "effect": "` + effect + `", "message": "m"` + rest + `} if {` +
		"\n\tsome change in input.changes\n\tchange.path == \"/src/a\"\n}"
}

// TestRulesJudgeChanges: deny, then ask; nothing has to be allowed, and only what a rule did not say of
// the call counts.
func TestRulesJudgeChanges(t *testing.T) {
	deny, ask, allow := on("deny", ""), on("ask", ""), on("allow", "")
	always := `findings contains {"id": "acme.always", "effect": "deny", "message": "m"}`
	for _, tt := range []struct {
		name string
		rego []string
		mode tool.Mode
		want tool.Verdict
		rule string
	}{
		{"nobody says anything", nil, tool.ModeDefault, tool.Allow, ""},
		{"an allow says nothing", []string{allow}, tool.ModeDefault, tool.Allow, ""},
		{"an ask", []string{allow, ask}, tool.ModeDefault, tool.Ask, "acme.ask"},
		{"a deny beats an ask", []string{ask, deny}, tool.ModeDefault, tool.Deny, "acme.deny"},
		{"nobody is asked", []string{ask}, tool.ModeDontAsk, tool.Deny, "mode:dontAsk"},
		{"what rules ask passes", []string{ask}, tool.ModeBypassPermissions, tool.Allow, ""},
		{"a deny does not pass", []string{deny}, tool.ModeBypassPermissions, tool.Deny, "acme.deny"},
		{"a rule about the call spoke before", []string{always}, tool.ModeDefault, tool.Allow, ""},
		{"a rewrite comes too late", []string{on("rewrite", `, "patch": {"a": 1}`)}, tool.ModeDefault, tool.Deny, "core.rewrite"},
		{"a rule that fails", []string{`findings contains {"id": "acme.x", "effect": "deny", "message": sprintf("%d", [to_number(change.path)])} if some change in input.changes`}, tool.ModeDefault, tool.Deny, "core.evaluation"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Profile: ProfileDeveloper, Disable: []string{"developer.changes.deleted"}}
			if tt.rego != nil {
				o.Dirs = []string{policyDir(t, acme(strings.Join(tt.rego, "\n\n")))}
			}
			e := newEngine(t, o)
			if len(tt.rego) > 0 && !e.SeesChanges() {
				t.Error("nobody would ask it")
			}
			c := bash(t, tt.mode, "make")
			for path, want := range map[string]tool.Verdict{"/src/a": tt.want, "/src/b": tool.Allow} {
				d, err := e.JudgeChanges(t.Context(), c, []tool.Changed{{Path: path, Kind: tool.ChangeDelete}})
				if err != nil {
					t.Fatal(err)
				}
				if tt.rule == "core.evaluation" {
					want = tool.Deny
				}
				if d.Verdict != want || want != tool.Allow && d.Reasons[0].Rule != tt.rule {
					t.Errorf("%s: %s %+v, want %s by %q", path, d.Verdict, d.Reasons, want, tt.rule)
				}
			}
		})
	}
}

// Of many changes rules see some at a time, deletions first, and miss none.
func TestManyChangesAreJudgedInParts(t *testing.T) {
	e := newEngine(t, Options{Dirs: []string{policyDir(t, acme(on("deny", "")))}})
	many := make([]tool.Changed, 5*maxChanges)
	for i := range many {
		many[i] = tool.Changed{Path: fmt.Sprint("/src/new", i), Kind: tool.ChangeCreate}
	}
	var deleted []tool.Changed
	for i := range 11 {
		deleted = append(deleted, tool.Changed{Path: fmt.Sprint("/src/old", i), Kind: tool.ChangeDelete, Tracked: true})
	}
	for _, tt := range []struct {
		name string
		more []tool.Changed
		want tool.Verdict
	}{
		{"creations", nil, tool.Allow},
		{"one that a rule denies is the last", []tool.Changed{{Path: "/src/a", Kind: tool.ChangeCreate}}, tool.Deny},
		{"deletions are counted together", deleted, tool.Ask},
	} {
		list := many
		for i, c := range tt.more { // far apart
			list = slices.Insert(slices.Clone(list), (i+1)*len(list)/12, c)
		}
		if tt.want == tool.Deny {
			list = append(slices.Clone(many), tt.more...)
		}
		d, err := e.JudgeChanges(t.Context(), bash(t, tool.ModeAuto, "make"), list)
		if err != nil || d.Verdict != tt.want {
			t.Errorf("%s: %v, %+v, want %s", tt.name, err, d, tt.want)
		}
	}
}

// Rules see at most 1,000 changes at a time: their time limit is for that many.
func TestRulesSeeSoManyChangesAtOnce(t *testing.T) {
	for most, want := range map[int]tool.Verdict{999: tool.Deny, 1000: tool.Allow} {
		rule := fmt.Sprintf(`findings contains {"id": "acme.many", "effect": "deny", "message": "m"} if count(input.changes) > %d`, most)
		e := newEngine(t, Options{Dirs: []string{policyDir(t, acme(rule))}})
		many := make([]tool.Changed, 3000)
		for i := range many {
			many[i] = tool.Changed{Path: fmt.Sprint("/src/new", i), Kind: tool.ChangeCreate}
		}
		d, err := e.JudgeChanges(t.Context(), bash(t, tool.ModeAuto, "make"), many)
		if err != nil || d.Verdict != want {
			t.Errorf("more than %d at once: %v, %+v, want %s", most, err, d, want)
		}
	}
}
