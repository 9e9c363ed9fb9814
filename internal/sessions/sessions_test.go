package sessions_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func open(t *testing.T, path string, o sessions.Options) *sessions.Store {
	t.Helper()
	db, err := storetest.At(t.Context(), t, path, sessions.Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if db.Shared() {
		local, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, sessions.Schema())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { local.Close() })
		o.Local = local
	}
	return sessions.New(db, o)
}

func create(t *testing.T, s *sessions.Store, sess tool.Session) tool.Session {
	t.Helper()
	sess, err := s.Create(t.Context(), sess)
	if err != nil {
		t.Fatal(err)
	}
	return sess
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != code {
		t.Errorf("got error %v, want code %s", err, code)
	}
}

// TestWhereASessionBeganStays: no change moves it, and a fork has that of its origin. One that is given counts.
func TestWhereASessionBeganStays(t *testing.T) {
	s, _ := kept(t)
	one := create(t, s, tool.Session{Account: "a", Dir: "/repo"})
	moved, err := s.Patch(t.Context(), "a", one.ID, func(x *tool.Session) error {
		x.Dir, x.Begun, x.Tree = "/repo/.worktrees/t/sub", "/repo/sub", "/repo/.worktrees/t"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	as := moved
	as.ID = "fork"
	fork, err := s.Fork(t.Context(), moved, as, sessions.Until{})
	if err != nil {
		t.Fatal(err)
	}
	child := create(t, s, tool.Session{Account: "a", Parent: one.ID, Agent: "b", Dir: "/repo/x", Begun: "/repo"})
	for _, tt := range []struct {
		sess             tool.Session
		dir, begun, tree string
	}{
		{one, "/repo/.worktrees/t/sub", "/repo", "/repo/.worktrees/t"},
		{fork, "/repo/.worktrees/t/sub", "/repo", "/repo/.worktrees/t"},
		{child, "/repo/x", "/repo", ""},
	} {
		got, err := s.Session(t.Context(), "a", tt.sess.ID)
		if err != nil || got.Dir != tt.dir || got.Begun != tt.begun || got.Tree != tt.tree {
			t.Errorf("%s: in %s, begun in %s, tree %s, %v; want %+v", got.ID, got.Dir, got.Begun, got.Tree, err, tt)
		}
	}
}

func TestD18_SessionsAreWholeAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	want := create(t, open(t, path, sessions.Options{}), tool.Session{
		Account: "a", Dir: "/repo", Home: "/home/a", Mode: "auto", Profile: "strict", Title: "t", Tag: "cli",
		Metadata: []byte(`{"n":12345678901234567890}`),
		Groups:   map[string]bool{"web": false}, Tools: map[string]bool{"Bash": true},
		Sandbox: &guard.Settings{AllowedCommands: []string{}, DeniedPaths: []string{"/x"}},
		Found:   []string{"WebFetch"}, Skills: []tool.Skill{{Name: "review", Tools: []string{"Read"}, Within: true}},
		Agent: "lead", Type: "Plan", Tree: "/repo/.worktrees/t", Only: []string{"Read"}, Without: []string{"Bash"},
	})
	got, err := open(t, path, sessions.Options{}).Session(t.Context(), "a", want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the session changed (-want +got):\n%s", diff)
	}
	if got.Sandbox.AllowedCommands == nil || got.Sandbox.DeniedCommands != nil {
		t.Error("an empty list and an absent one became the same")
	}
}

// What clients say of a session is bounded, when it is made and when it is changed.
func TestWhatClientsSayOfASessionIsBounded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "s.db"), sessions.Options{})
	text := func(n int) string { return strings.Repeat("x", n) }
	meta := func(n int) []byte { return []byte(`"` + text(n-2) + `"`) }
	fits := create(t, s, tool.Session{
		Account: "a", Dir: "/", Title: text(1 << 10), Tag: text(256), Metadata: meta(64 << 10),
	})
	for _, tt := range []struct {
		name, code string
		change     func(*tool.Session)
	}{
		{"title", "validation_error", func(s *tool.Session) { s.Title = text(1<<10 + 1) }},
		{"a title that is no text", "validation_error", func(s *tool.Session) { s.Title = "\xff" }},
		{"tag", "validation_error", func(s *tool.Session) { s.Tag = text(257) }},
		{"metadata", "too_large", func(s *tool.Session) { s.Metadata = meta(64<<10 + 1) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			larger := tool.Session{Account: "a", Dir: "/"}
			tt.change(&larger)
			_, err := s.Create(t.Context(), larger)
			wantCode(t, err, tt.code)
			_, err = s.Patch(t.Context(), "a", fits.ID, func(s *tool.Session) error { tt.change(s); return nil })
			wantCode(t, err, tt.code)
		})
	}
}

// What an older daemon let in, which had no bounds, stays, and the session can be changed.
func TestALongerTitleOfBeforeStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	made := create(t, open(t, path, sessions.Options{}), tool.Session{
		Account: "a", Dir: "/", Title: "short", Metadata: []byte(`"little"`),
	})
	db, err := storetest.At(t.Context(), t, path, sessions.Schema())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	title, tag, metadata := strings.Repeat("long", 1<<9), strings.Repeat("x", 300), strings.Repeat("y", 70_000)
	err = db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE sessions SET tag = $1, data = replace(replace(data, 'short', $2), 'little', $3)`,
			tag, title, metadata)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, path, sessions.Options{}) // as after a restart
	got, err := s.Patch(t.Context(), "a", made.ID, func(s *tool.Session) error { s.Mode = "plan"; return nil })
	if err != nil || got.Mode != "plan" || got.Title != title || got.Tag != tag ||
		string(got.Metadata) != `"`+metadata+`"` {
		t.Errorf("a change of something else: %v, %+v", err, got)
	}
	for name, change := range map[string]func(*tool.Session){
		"title": func(s *tool.Session) { s.Title += "er" }, "tag": func(s *tool.Session) { s.Tag += "x" },
	} {
		_, err := s.Patch(t.Context(), "a", made.ID, func(s *tool.Session) error { change(s); return nil })
		if t.Run(name, func(t *testing.T) { wantCode(t, err, "validation_error") }); err == nil {
			t.Errorf("a %s that is longer still is taken", name)
		}
	}
	_, err = s.Patch(t.Context(), "a", made.ID, func(s *tool.Session) error {
		s.Metadata = []byte(`"x` + metadata + `"`)
		return nil
	})
	wantCode(t, err, "too_large")
}

func TestGeneratedIDsAreLongAndDiffer(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{})
	a, b := create(t, s, tool.Session{}), create(t, s, tool.Session{})
	if a.ID == b.ID || len(a.ID) < 26 {
		t.Errorf("got ids %q and %q", a.ID, b.ID)
	}
}

func TestForeignSessionsDoNotExist(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{})
	sess := create(t, s, tool.Session{ID: "mine", Account: "a"})
	nothing := func(*tool.Session) error { return nil }
	_, unknown := s.Session(t.Context(), "b", "never")
	_, foreign := s.Session(t.Context(), "b", sess.ID)
	if _, err := s.Session(t.Context(), "a", sess.ID); err != nil { // from here on it is at hand
		t.Error(err)
	}
	_, cached := s.Session(t.Context(), "b", sess.ID)
	wantCode(t, cached, "session_not_found")
	wantCode(t, unknown, "session_not_found")
	if got, want := foreign.Error(), strings.ReplaceAll(unknown.Error(), "never", "mine"); got != want {
		t.Errorf("a foreign session is told apart: %q, want %q", got, want)
	}
	_, err := s.Patch(t.Context(), "b", sess.ID, nothing)
	wantCode(t, err, "session_not_found")
	wantCode(t, s.Delete(t.Context(), "b", sess.ID), "session_not_found")
	if page, err := s.List(t.Context(), "b", sessions.Filter{}); err != nil || page.Total != 0 || len(page.Keys) != 0 {
		t.Errorf("got %+v, %v, want no session", page, err)
	}
	_, err = s.Create(t.Context(), tool.Session{ID: "mine", Account: "b"})
	wantCode(t, err, "session_exists")
}

func TestDeletedIDs(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{})
	create(t, s, tool.Session{ID: "x", Account: "a", Title: "secret", Dir: "/secret"})
	if err := s.Delete(t.Context(), "a", "x"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Session(t.Context(), "a", "x")
	wantCode(t, err, "session_not_found")
	wantCode(t, s.Delete(t.Context(), "a", "x"), "session_not_found")
	_, err = s.Create(t.Context(), tool.Session{ID: "x", Account: "b"})
	wantCode(t, err, "session_exists")
	if again := create(t, s, tool.Session{ID: "x", Account: "a"}); again.Title != "" || again.Dir != "" {
		t.Errorf("the new session has something of the old: %+v", again)
	}
}

func TestTheLivesOfOtherStateAreTied(t *testing.T) {
	var log []string
	boom := errors.New("boom")
	s := open(t, ":memory:", sessions.Options{})
	s.Attach(part.Part{
		Created: func(_ *sql.Tx, s tool.Session) error { log = append(log, "+"+s.ID); return nil },
		Deleted: func(_ *sql.Tx, id string) error {
			log = append(log, "-"+id)
			if id == "stuck" {
				return boom
			}
			return nil
		},
	})
	create(t, s, tool.Session{ID: "x"})
	create(t, s, tool.Session{ID: "stuck"})
	if err := s.Delete(t.Context(), "", "x"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "", "stuck"); !errors.Is(err, boom) {
		t.Errorf("got %v, want boom", err)
	}
	if _, err := s.Session(t.Context(), "", "stuck"); err != nil {
		t.Errorf("a deletion that failed deleted: %v", err)
	}
	if diff := cmp.Diff([]string{"+x", "+stuck", "-x", "-stuck"}, log); diff != "" {
		t.Error(diff)
	}
}

func TestD17_SessionIDs(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{})
	for _, tt := range []struct{ id, want string }{
		{"a/b", "Session ID contains invalid character: '/'"},
		{`a\b`, `Session ID contains invalid character: '\'`},
		{"a..b", "Session ID contains invalid character: '..'"},
		{".a", "Session ID contains invalid character: '.'"},
		{"a\x00b", "Session ID contains invalid character: 'U+0000'"},
		{"a\nb", "Session ID contains invalid character: 'U+000A'"},
		{"a\xffb", "Session ID is not valid UTF-8"},
		{strings.Repeat("a", 129), "Session ID is longer than 128 bytes"},
	} {
		_, created := s.Create(t.Context(), tool.Session{ID: tt.id})
		_, read := s.Session(t.Context(), "", tt.id)
		_, patched := s.Patch(t.Context(), "", tt.id, nil)
		for op, err := range map[string]error{
			"create": created, "get": read, "patch": patched,
			"delete": s.Delete(t.Context(), "", tt.id),
		} {
			if err == nil || err.Error() != tt.want {
				t.Errorf("%s %q: got %v, want %s", op, tt.id, err, tt.want)
			}
		}
	}
	if err := sessions.CheckID(""); err == nil || err.Error() != "Session ID must not be empty" {
		t.Errorf("got %v", err)
	}
	for _, id := range []string{"a", "a.b", "größe", strings.Repeat("a", 128)} {
		if err := sessions.CheckID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestAnAccountHasSoManySessions: its own count, the others do not, nor those that
// are deleted.
func TestAnAccountHasSoManySessions(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{PerAccount: 2})
	create(t, s, tool.Session{ID: "x", Account: "a", Dir: "/w"})
	create(t, s, tool.Session{ID: "y", Account: "a", Dir: "/w"})
	create(t, s, tool.Session{ID: "z", Account: "b", Dir: "/w"})
	_, err := s.Create(t.Context(), tool.Session{Account: "a"})
	wantCode(t, err, "too_many_sessions")
	_, _, err = s.Ensure(t.Context(), tool.Session{Account: "a", Dir: "/other"})
	wantCode(t, err, "too_many_sessions")
	got, fresh, err := s.Ensure(t.Context(), tool.Session{Account: "a", Dir: "/w"})
	if err != nil || fresh || got.ID != "y" {
		t.Errorf("one that is there: got %+v, %v, %v", got, fresh, err)
	}
	if err := s.Delete(t.Context(), "a", "x"); err != nil {
		t.Fatal(err)
	}
	create(t, s, tool.Session{ID: "x", Account: "a"})
}

func TestPatch(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{})
	old := create(t, s, tool.Session{ID: "x", Account: "a", Mode: "plan"})
	got, err := s.Patch(t.Context(), "a", "x", func(sess *tool.Session) error {
		sess.Title, sess.ID, sess.Account = "new", "y", "b"
		return nil
	})
	if err != nil || got.Title != "new" || got.ID != "x" || got.Account != "a" || got.Mode != "plan" ||
		!got.Updated.After(old.Updated) {
		t.Errorf("got %+v, %v", got, err)
	}
	refused := errors.New("refused")
	_, err = s.Patch(t.Context(), "a", "x", func(sess *tool.Session) error { sess.Title = "other"; return refused })
	if !errors.Is(err, refused) {
		t.Errorf("got %v, want the error of the change", err)
	}
	if now, _ := s.Session(t.Context(), "a", "x"); now.Title != "new" {
		t.Errorf("a refused change was stored: %q", now.Title)
	}
}

func TestList(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{})
	for _, id := range []string{"1", "2", "3"} {
		create(t, s, tool.Session{ID: id, Account: "a", Dir: "/" + id, Tag: "t"})
	}
	if _, err := s.Patch(t.Context(), "a", "1", func(*tool.Session) error { return nil }); err != nil {
		t.Fatal(err)
	}
	create(t, s, tool.Session{ID: "0", Account: "b", Dir: "/2", Tag: "t"})
	for _, tt := range []struct {
		name  string
		f     sessions.Filter
		want  string
		total int
	}{
		{"newest first", sessions.Filter{}, "321", 3},
		{"oldest first", sessions.Filter{Ascending: true}, "123", 3},
		{"last change first", sessions.Filter{ByUpdated: true}, "132", 3},
		{"a page", sessions.Filter{Limit: 1, Offset: 1}, "2", 3},
		{"past the end", sessions.Filter{Offset: 9}, "", 3},
		{"one directory", sessions.Filter{Dir: "/2", Tag: "t"}, "2", 1},
		{"another tag", sessions.Filter{Tag: "u"}, "", 0},
		{"of every account", sessions.Filter{Everyone: true}, "0321", 4},
		{"one directory of every account", sessions.Filter{Everyone: true, Dir: "/2"}, "02", 2},
	} {
		page, err := s.List(t.Context(), "a", tt.f)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for sess, err := range page.Rows(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got += sess.ID
		}
		if got != tt.want || page.Total != tt.total {
			t.Errorf("%s: got %q of %d, want %q of %d", tt.name, got, page.Total, tt.want, tt.total)
		}
	}
}

func TestEnsureGivesOneSessionPerDirectory(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "s.db"), sessions.Options{})
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			sess, _, err := s.Ensure(context.Background(), tool.Session{Account: "a", Dir: "/repo", Tag: "cli"})
			if err != nil {
				t.Error(err)
			}
			ids[i] = sess.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("got several sessions: %v", ids)
		}
	}
	// Its shell moves; it is still the session of the directory that it began in.
	if _, err := s.Patch(t.Context(), "a", ids[0], func(x *tool.Session) error { x.Dir = "/repo/sub"; return nil }); err != nil {
		t.Fatal(err)
	}
	again, created, err := s.Ensure(t.Context(), tool.Session{Account: "a", Dir: "/repo", Tag: "cli"})
	if err != nil || created || again.ID != ids[0] || again.Dir != "/repo/sub" {
		t.Errorf("got %+v, created %v, %v", again, created, err)
	}
	below, created, err := s.Ensure(t.Context(), tool.Session{Account: "a", Dir: "/repo/sub", Tag: "cli"})
	if err != nil || !created || below.ID == ids[0] {
		t.Errorf("got %+v, created %v, %v, want another session", below, created, err)
	}
	tagged, created, err := s.Ensure(t.Context(), tool.Session{Account: "a", Dir: "/repo", Tag: "ide"})
	if err != nil || !created || tagged.ID == ids[0] {
		t.Errorf("got %+v, created %v, %v, want a session of its own for the other tag", tagged, created, err)
	}
	later, err := s.Create(t.Context(), tool.Session{Account: "a", Dir: "/repo", Tag: "cli"})
	if err != nil {
		t.Fatal(err)
	}
	again, created, err = s.Ensure(t.Context(), tool.Session{Account: "a", Dir: "/repo", Tag: "cli"})
	if err != nil || created || again.ID != later.ID {
		t.Errorf("got %+v, created %v, %v, want the latest, %s", again, created, err, later.ID)
	}
	other, created, err := s.Ensure(t.Context(), tool.Session{Account: "b", Dir: "/repo", Tag: "cli"})
	if err != nil || !created || other.ID == ids[0] {
		t.Errorf("got %q, created %v, %v: want a session of its own for the other account", other.ID, created, err)
	}
}
