package sessions_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// tree makes root, root/a and root/a/b.
func tree(t *testing.T, s *sessions.Store) {
	t.Helper()
	create(t, s, tool.Session{ID: "root", Account: "u", Mode: tool.ModeAuto, Profile: "light", Agent: "lead"})
	create(t, s, tool.Session{ID: "a", Account: "u", Mode: tool.ModeAuto, Profile: "light", Parent: "root", Agent: "one"})
	create(t, s, tool.Session{ID: "b", Account: "u", Mode: tool.ModeAuto, Profile: "light", Parent: "a", Agent: "two"})
}

func TestN10_ASessionIsNeverLooserThanThoseAbove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path, sessions.Options{})
	tree(t, s)
	if _, err := s.Session(t.Context(), "u", "b"); err != nil { // now it is at hand
		t.Fatal(err)
	}
	_, err := s.Patch(t.Context(), "u", "root", func(x *tool.Session) error {
		x.Mode, x.Profile = tool.ModePlan, "strict"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*sessions.Store{"live": s, "after a restart": open(t, path, sessions.Options{})} {
		got, err := s.Session(t.Context(), "u", "b")
		if err != nil || got.Mode != tool.ModePlan || got.Profile != "strict" || got.Root() != "root" {
			t.Errorf("%s: got %s, %s below %s, %v", name, got.Mode, got.Profile, got.Root(), err)
		}
		want := []tool.Ancestor{{Session: "a", Agent: "one"}, {Session: "root", Agent: "lead"}}
		if !slices.Equal(got.Ancestors(), want) {
			t.Errorf("%s: above are %v", name, got.Ancestors())
		}
		page, err := s.List(t.Context(), "u", sessions.Filter{})
		if err != nil || page.Total != 3 {
			t.Fatalf("%s: %d sessions, %v", name, page.Total, err)
		}
		for x, err := range page.Rows(t.Context()) {
			if err != nil || x.Mode != tool.ModePlan || x.Profile != "strict" {
				t.Errorf("%s: in the list %s is %s, %s, %v", name, x.ID, x.Mode, x.Profile, err)
			}
		}
	}
	patched, err := s.Patch(t.Context(), "u", "b", func(x *tool.Session) error {
		x.Mode, x.Parent, x.Agent = tool.ModeBypassPermissions, "", "other"
		return nil
	})
	if err != nil || patched.Mode != tool.ModePlan || patched.Parent != "a" || patched.Agent != "two" {
		t.Errorf("a change gave %s, parent %q, agent %q, %v", patched.Mode, patched.Parent, patched.Agent, err)
	}
}

func TestN29_ANameIsOneAgentsInItsTree(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{})
	tree(t, s)
	for _, name := range []string{"lead", "one", "two"} {
		_, err := s.Create(t.Context(), tool.Session{Account: "u", Parent: "a", Agent: name})
		wantCode(t, err, "agent_exists")
		if err != nil && err.Error() != "Agent with name '"+name+"' is already registered" {
			t.Errorf("got %q", err)
		}
	}
	create(t, s, tool.Session{ID: "other", Account: "u", Agent: "one"}) // another tree
	if err := s.Delete(t.Context(), "u", "b"); err != nil {
		t.Fatal(err)
	}
	create(t, s, tool.Session{Account: "u", Parent: "root", Agent: "two"}) // free again

	var wg sync.WaitGroup
	made := make(chan string, 20)
	for range cap(made) {
		wg.Go(func() {
			if x, err := s.Create(context.Background(), tool.Session{Account: "u", Parent: "root", Agent: "same"}); err == nil {
				made <- x.ID
			}
		})
	}
	wg.Wait()
	if len(made) != 1 {
		t.Errorf("%d agents have one name", len(made))
	}
}

func TestN01_TheParentOfASessionIsOfItsAccount(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{})
	tree(t, s)
	for _, tt := range []struct{ name, account, parent, agent, code string }{
		{"no such parent", "u", "nobody", "x", "session_not_found"},
		{"one of another account", "v", "root", "x", "session_not_found"},
		{"no name", "u", "root", "", "validation_error"},
		{"a name that is none", "u", "root", "-x", "validation_error"},
		{"a name with a line feed", "u", "root", "x\n", "validation_error"},
	} {
		_, err := s.Create(t.Context(), tool.Session{Account: tt.account, Parent: tt.parent, Agent: tt.agent})
		t.Log(tt.name, err)
		wantCode(t, err, tt.code)
	}
	at := "b"
	for i := range 16 {
		x, err := s.Create(t.Context(), tool.Session{Account: "u", Parent: at, Agent: "deep" + string(rune('a'+i))})
		if err != nil {
			wantCode(t, err, "validation_error")
			return
		}
		at = x.ID
	}
	t.Error("a tree may be as deep as it likes")
}

func TestN01_WhatIsBelowEndsWithASession(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{})
	tree(t, s)
	create(t, s, tool.Session{ID: "side", Account: "u", Parent: "root", Agent: "side"})
	var ended []string
	s.Attach(part.Part{Forget: func(_ context.Context, x tool.Session) error {
		ended = append(ended, x.ID)
		return nil
	}})
	if err := s.Delete(t.Context(), "u", "a"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"b", "a"}; !slices.Equal(ended, want) {
		t.Errorf("%q ended, want %q", ended, want)
	}
	_, err := s.Session(t.Context(), "u", "b")
	wantCode(t, err, "session_not_found")
	if err := s.Delete(t.Context(), "u", "root"); err != nil {
		t.Fatal(err)
	}
	if all, err := s.All(t.Context(), "u"); err != nil || len(all) != 0 {
		t.Errorf("%d are left, %v", len(all), err)
	}
	// An id that is used again has nothing above it.
	x := create(t, s, tool.Session{ID: "b", Account: "u"})
	if got, err := s.Session(t.Context(), "u", "b"); err != nil || got.Parent != "" || x.Root() != "b" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestN01_OneThatIsUsedBelowKeepsThoseAbove(t *testing.T) {
	storetest.FileOnly(t) // the clock of the test decides
	s := open(t, ":memory:", sessions.Options{})
	tree(t, s)
	since := time.Now()
	s.Used("b")
	if gone, err := s.DeleteIdle(t.Context(), "u", "root", since); gone || err != nil {
		t.Errorf("the tree went: %v, %v", gone, err)
	}
	if gone, err := s.DeleteIdle(t.Context(), "u", "root", time.Now().Add(time.Hour)); !gone || err != nil {
		t.Errorf("the tree stays: %v, %v", gone, err)
	}
}

func TestN01_SessionsOfATreeAreListedAfterTheirParents(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{})
	tree(t, s)
	create(t, s, tool.Session{ID: "later", Account: "u"})
	create(t, s, tool.Session{ID: "c", Account: "u", Parent: "root", Agent: "three"})
	all, err := s.All(t.Context(), "u")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, x := range all {
		ids = append(ids, x.ID)
	}
	if want := []string{"root", "a", "b", "c", "later"}; !slices.Equal(ids, want) {
		t.Errorf("got %q, want %q", ids, want)
	}
	recent, ok, err := s.Recent(t.Context(), "u")
	if err != nil || !ok || recent.ID != "later" {
		t.Errorf("the most recent is %q: agents that were started do not count", recent.ID)
	}
	x, err := s.Fork(t.Context(), all[1], all[1], sessions.Until{})
	if err == nil {
		t.Error("a copy has the id of its source")
	}
	as := all[1]
	as.ID = ""
	if x, err = s.Fork(t.Context(), all[1], as, sessions.Until{}); err != nil || x.Parent != "root" || x.Agent != "one-2" {
		t.Errorf("a copy is %q below %q, %v", x.Agent, x.Parent, err)
	}
}

// A tree is so deep, and whoever starts one agent more below the last is told.
func TestATreeIsSoDeep(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{})
	create(t, s, tool.Session{ID: "s0", Account: "u"})
	var err error
	i := 0
	for err == nil && i < 100 {
		i++
		_, err = s.Create(t.Context(), tool.Session{
			ID: fmt.Sprint("s", i), Account: "u", Parent: fmt.Sprint("s", i-1), Agent: fmt.Sprint("a", i),
		})
	}
	if wantCode(t, err, "validation_error"); i != 17 {
		t.Errorf("session %d is refused, want the one with 17 above", i)
	}
	if _, err := s.Session(t.Context(), "u", "s16"); err != nil {
		t.Errorf("the last is not read: %v", err)
	}
}

// An account without a session has no recent one, which is no error.
func TestNoSessionIsRecent(t *testing.T) {
	s := open(t, ":memory:", sessions.Options{})
	if sess, ok, err := s.Recent(t.Context(), "u"); ok || err != nil {
		t.Errorf("got %+v, %v", sess, err)
	}
	tree(t, s)
	if sess, ok, err := s.Recent(t.Context(), "u"); sess.ID != "root" || !ok || err != nil {
		t.Errorf("got %s, %v, %v", sess.ID, ok, err)
	}
}
