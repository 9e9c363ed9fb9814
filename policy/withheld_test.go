package policy

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// TestWhatASearchFoundIsWithheld: by a rule for names at any depth, by one that asks, and by one that is written in
// Rego; not what the call named itself.
func TestWhatASearchFoundIsWithheld(t *testing.T) {
	rego := `findings contains {"id": "acme.keys", "effect": "deny", "message": "m"} if {
	some p in input.paths
	p.base == "key"
}`
	e := newEngine(t, Options{
		Rules: permission.Rules{Deny: []string{"Read(*.pem)"}, Ask: []string{"Read(**/asked.*)"}},
		Dirs:  []string{policyDir(t, acme(rego))},
	})
	found, want := []string{}, map[string]bool{}
	for i := range 3 * maxFiles {
		found = append(found, fmt.Sprintf("/src/dir%d/a.go", i))
	}
	for i, name := range []string{"x.pem", "deep/er/y.pem", "asked.txt", "sub/key"} {
		path := "/src/" + name
		found[i*maxFiles/2+i] = path
		want[path] = true
	}
	for _, tt := range []struct {
		mode  tool.Mode
		asked bool
	}{{tool.ModeDefault, true}, {tool.ModeDontAsk, true}, {tool.ModeBypassPermissions, false}} {
		c := newCall(t, tt.mode, "Grep", map[string]any{"pattern": "x"})
		c.Facts.Uses.Paths = []guard.PathUse{{Raw: ".", Path: "/src", Op: guard.Read, Recursive: true}}
		got, err := e.Withheld(t.Context(), c, found)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if expect := want[path] && (tt.asked || path != "/src/asked.txt"); got[path] != expect {
				t.Errorf("%s: %s is withheld: %t", tt.mode, path, got[path])
			}
		}
	}
	c := newCall(t, tool.ModeDefault, "Grep", map[string]any{"pattern": "x"})
	c.Facts.Uses.Paths = []guard.PathUse{{Raw: "x.pem", Path: "/src/x.pem", Op: guard.Read}}
	if got, err := e.Withheld(t.Context(), c, []string{"/src/x.pem"}); err != nil || len(got) > 0 {
		t.Errorf("what the call names was judged with it: %v %v", got, err)
	}
}

// TestWhatCannotBeJudgedIsNotFound: a rule that fails withholds by an error.
func TestWhatCannotBeJudgedIsNotFound(t *testing.T) {
	fails := `findings contains {"id": "acme.x", "effect": "deny", "message": sprintf("%d", [to_number(p.path)])} if {
	some p in input.paths
	not p.recursive
}`
	e := newEngine(t, Options{Dirs: []string{policyDir(t, acme(fails))}})
	c := newCall(t, tool.ModeDefault, "Grep", map[string]any{"pattern": "x"})
	c.Facts.Uses.Paths = []guard.PathUse{{Raw: ".", Path: "/src", Op: guard.Read, Recursive: true}}
	got, err := e.Withheld(t.Context(), c, []string{"/src/a"})
	if te, ok := errors.AsType[*tool.Error](err); !ok || te.Code == "" || te.Msg == "" {
		t.Errorf("it is judged: %v, %+v", got, err)
	}
}
