package kept_test

import (
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
)

// TestPinsAreSharedAndOwnersAreNot: uids are of a host, and definitions are not.
func TestPinsAreSharedAndOwnersAreNot(t *testing.T) {
	db, err := storetest.At(t.Context(), t, filepath.Join(t.TempDir(), "s.db"), kept.Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	daemon := func() *kept.Store {
		own, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, kept.Schema())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { own.Close() })
		return kept.New(db, own)
	}
	a, b := daemon(), daemon()
	server := kept.Server{Account: "me", Config: "0123", Name: "files"}
	one, two := kept.Tool{Name: "read", Text: []byte(`{"v":1}`)}, kept.Tool{Name: "read", Text: []byte(`{"v":2}`)}
	compare := func(s *kept.Store, offered kept.Tool, want string) {
		t.Helper()
		states, err := s.Compare(t.Context(), server, []kept.Tool{offered}, true)
		if got := states[offered.Name].Why; got != want || err != nil {
			t.Errorf("%s is %q, want %q, %v", offered.Text, got, want, err)
		}
	}
	holds := func(s *kept.Store, offered kept.Tool, want bool) {
		t.Helper()
		if got, err := s.Holds(t.Context(), server, offered.Name, offered.Pin()); got != want || err != nil {
			t.Errorf("%s holds: %v, want %v, %v", offered.Text, got, want, err)
		}
	}
	holds(a, one, false)
	compare(a, one, "")
	compare(b, two, kept.Changed)
	holds(b, one, true)
	changes := b.Changes(t.Context())
	<-changes
	if err := a.Accept(t.Context(), server, two); err != nil {
		t.Fatal(err)
	}
	<-changes
	compare(b, two, "")
	compare(b, one, kept.Changed)
	holds(b, one, false)
	holds(b, two, true)
	if err := a.SetOwner(t.Context(), "s", kept.Owner{UID: 1000}); err != nil {
		t.Fatal(err)
	}
	for s, want := range map[*kept.Store]bool{a: true, b: false} {
		if _, known, err := s.Owner(t.Context(), "s"); known != want || err != nil {
			t.Errorf("the owner is known: %v, want %v, %v", known, want, err)
		}
	}
}
