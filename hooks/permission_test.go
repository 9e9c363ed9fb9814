package hooks

import (
	"context"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func updates(name, behavior string) Definition {
	return Definition{
		Matcher: "^" + name + "$",
		Handler: says(Output{PermissionUpdate: &PermissionUpdate{Tool: name, Behavior: behavior}}).Handler,
	}
}

func openStore(t *testing.T, path string) *store.DB {
	t.Helper()
	db, err := storetest.At(t.Context(), t, path, Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// TestH23_PermissionUpdateHoldsOverARestart: what a hook said of a session holds
// until the session is gone, and what it denied for longer than that.
func TestH23_PermissionUpdateHoldsOverARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := openStore(t, path)
	open := func(o Options) *Registry {
		t.Helper()
		o.DB = db
		r, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open(Options{Hooks: map[string][]Definition{"preToolUse": {
		updates("Bash", "deny"), updates("Read", "allow"), updates("Edit", "ask"),
	}}})
	calls := []string{"Bash", "Read", "Edit"}
	for _, name := range calls {
		c := bash("ls")
		c.Spec.Name = name
		before(t, r, c)
	}
	said := func(r *Registry, session string) string {
		var all []string
		for _, name := range calls {
			c := bash("ls")
			c.Spec.Name, c.Request.Session = name, session
			a := before(t, r, c)
			switch {
			case a.Block:
				name += " denied"
			case a.Ask:
				name += " asked"
			case a.Allow:
				name += " allowed"
			}
			all = append(all, name)
		}
		return strings.Join(all, ", ")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openStore(t, path)
	r = open(Options{})
	if got, want := said(r, "s1"), "Bash denied, Read allowed, Edit asked"; got != want {
		t.Errorf("after a restart: got %s, want %s", got, want)
	}
	if got, want := said(r, "s2"), "Bash, Read, Edit"; got != want {
		t.Errorf("in another session: got %s, want %s", got, want)
	}
	if err := r.Forget(t.Context(), "s1"); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Registry{r, open(Options{})} {
		if got, want := said(r, "s1"), "Bash denied, Read, Edit asked"; got != want {
			t.Errorf("after the session was deleted: got %s, want %s", got, want)
		}
	}
}

// What a hook says again holds longer: 90 days after the last time.
func TestAPermissionThatIsRepeatedIsRenewed(t *testing.T) {
	storetest.FileOnly(t)
	for days, want := range map[int]bool{60: true, 89: true, 91: false} {
		synctest.Test(t, func(t *testing.T) {
			db := openStore(t, filepath.Join(t.TempDir(), "db"))
			open := func(hooks ...Definition) *Registry {
				r, err := New(Options{DB: db, Hooks: map[string][]Definition{"preToolUse": hooks}})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			r := open(updates("Bash", "deny"))
			before(t, r, bash("ls"))
			time.Sleep(60 * 24 * time.Hour)
			before(t, r, bash("ls"))
			time.Sleep(time.Duration(days) * 24 * time.Hour)
			if got := before(t, open(), bash("ls")).Block; got != want {
				t.Errorf("%d days after the second time it is denied: %t, want %t", days, got, want)
			}
		})
	}
}

// What hooks said of a session holds for the agents that it starts where it is stricter: what was allowed, was
// allowed to another agent.
func TestAnAgentIsNotAllowedWhatItsStarterIs(t *testing.T) {
	for _, tt := range []struct{ above, own, want string }{
		{"allow", "", ""},
		{"ask", "", "ask"},
		{"deny", "", "deny"},
		{"allow", "allow", "allow"},
		{"allow", "ask", "ask"},
		{"ask", "allow", "ask"},
		{"deny", "allow", "deny"},
	} {
		said := map[string]string{"s1": tt.above, "s2": tt.own}
		r := newRegistry(t, PreToolUse, Definition{Handler: func(_ context.Context, in Input) (*Output, error) {
			if said[in.SessionID] == "" {
				return nil, nil
			}
			return &Output{PermissionUpdate: &PermissionUpdate{Tool: "Bash", Behavior: said[in.SessionID]}}, nil
		}})
		starter, agent := bash("ls"), bash("ls")
		agent.Request.Session, agent.Session.ID = "s2", "s2"
		agent.Session.Above = []tool.Session{starter.Session}
		before(t, r, starter)
		a, got := before(t, r, agent), ""
		switch {
		case a.Block:
			got = "deny"
		case a.Ask:
			got = "ask"
		case a.Allow:
			got = "allow"
		}
		if got != tt.want {
			t.Errorf("%q of its starter and %q of itself: %q, want %q", tt.above, tt.own, got, tt.want)
		}
	}
}

// TestAPermissionUpdateThatCannotBeKeptBlocks: it would be gone after a restart,
// and nobody would know.
func TestAPermissionUpdateThatCannotBeKeptBlocks(t *testing.T) {
	db := openStore(t, ":memory:")
	r, err := New(Options{DB: db, Hooks: map[string][]Definition{"preToolUse": {updates("Bash", "allow")}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if a := before(t, r, bash("ls")); !a.Block || a.Allow {
		t.Errorf("got %+v, want a block", a)
	}
}

// A hook for Bash hears of the name that Codex has for it, and what one said of Bash holds for it.
func TestHooksOfBashAreOfExecCommandToo(t *testing.T) {
	codex := func() *tool.Call {
		c := bash("ls")
		c.Spec.Name, c.Request.Tool = "exec_command", "exec_command"
		return c
	}
	blocks := says(Output{Block: true, Reason: "no"})
	blocks.Matcher = "^Bash$"
	r, err := New(Options{Hooks: map[string][]Definition{"preToolUse": {blocks}}})
	if err != nil {
		t.Fatal(err)
	}
	if a := before(t, r, codex()); !a.Block {
		t.Errorf("the hook of Bash was not asked: %+v", a)
	}
	for _, said := range []string{"deny", "ask", "allow"} {
		r, err := New(Options{Hooks: map[string][]Definition{"preToolUse": {updates("Bash", said)}}})
		if err != nil {
			t.Fatal(err)
		}
		before(t, r, bash("ls"))
		if a := before(t, r, codex()); a.Block != (said == "deny") || a.Ask != (said == "ask") {
			t.Errorf("%s: %+v", said, a)
		}
	}
}

// Without a database the same holds: what is said of one tool leaves the others, and what loosens can be forgotten.
func TestPermissionsWithoutADatabase(t *testing.T) {
	for name, db := range map[string]*store.DB{"without": nil, "with": openStore(t, ":memory:")} {
		p, err := openPermissions(db)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range []PermissionUpdate{{"Bash", "allow"}, {"Read", "deny"}, {"Edit", "ask"}, {"Bash", "allow"}} {
			if err := p.set(t.Context(), "s", u); err != nil {
				t.Fatal(err)
			}
		}
		is := func(want map[string]string) {
			t.Helper()
			known, err := p.of(t.Context(), "s")
			got := map[string]string{}
			for tool, permission := range known {
				got[tool] = permission.behavior
			}
			if err != nil || !maps.Equal(got, want) {
				t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
			}
		}
		is(map[string]string{"Bash": "allow", "Read": "deny", "Edit": "ask"})
		if err := p.forgetAllows(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		is(map[string]string{"Read": "deny", "Edit": "ask"})
	}
}
