package kept_test

import (
	"path/filepath"
	"slices"
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
	compare(a, one, kept.Same)
	compare(b, two, kept.Changed)
	holds(b, one, true)
	changes := b.Changes(t.Context())
	<-changes
	if err := a.Accept(t.Context(), server, two); err != nil {
		t.Fatal(err)
	}
	<-changes
	compare(b, two, kept.Same)
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

// TestWhoIsAskedAboutADefinition: a person is asked about what is flagged, also at first sight, and about what is new
// or another one later.
func TestWhoIsAskedAboutADefinition(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		trust, ask, person   bool // first sight pins; the tool asks; a person let it in
		first, again, change string
		later                string // of a tool that comes later
	}{
		{"first sight pins", true, false, false, kept.Same, kept.Same, kept.Changed, kept.Added},
		{"first sight asks", false, false, false, kept.FirstSight, kept.Added, kept.Added, kept.Added},
		{"it is flagged", true, true, false, kept.Flagged, kept.Flagged, kept.Flagged, kept.Added},
		{"flagged, and first sight asks", false, true, false, kept.Flagged, kept.Flagged, kept.Flagged, kept.Added},
		{"a person let in what is flagged", true, true, true, kept.Flagged, kept.Same, kept.Changed, kept.Added},
		{"a person let it in at first sight", false, false, true, kept.FirstSight, kept.Same, kept.Changed, kept.Added},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db, err := store.Open(t.Context(), store.Options{Path: ":memory:"}, kept.Schema())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			s := kept.New(db, db)
			server := kept.Server{Account: "me", Config: "0123", Name: "files"}
			why := func(of kept.Tool) string {
				t.Helper()
				states, err := s.Compare(t.Context(), server, []kept.Tool{of}, tt.trust)
				if err != nil {
					t.Fatal(err)
				}
				return states[of.Name].Why
			}
			one := kept.Tool{Name: "read", Text: []byte(`{"v":1}`), Ask: tt.ask}
			two := kept.Tool{Name: "read", Text: []byte(`{"v":2}`), Ask: tt.ask}
			got := []string{why(one)}
			if tt.person {
				if err := s.Accept(t.Context(), server, one); err != nil {
					t.Fatal(err)
				}
			}
			got = append(got, why(one), why(two), why(kept.Tool{Name: "write", Text: []byte(`{}`)}))
			if want := []string{tt.first, tt.again, tt.change, tt.later}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
