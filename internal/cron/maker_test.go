package cron

import (
	"os/user"
	"strconv"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestAMakerThatHasLostSomethingHasNoRuns: its runs have no rights that its user has not now.
func TestAMakerThatHasLostSomethingHasNoRuns(t *testing.T) {
	nobody, err := user.Lookup("nobody")
	if err != nil {
		needs.Missing(t, "the user nobody: %v", err)
	}
	uid, err := strconv.Atoi(nobody.Uid)
	if err != nil {
		t.Fatal(err)
	}
	groups := groupsOf(uid)
	more := append([]int{815}, groups...)
	const unknown = 4711
	if groupsOf(unknown) != nil {
		needs.Elsewhere(t, "this host has a user %d", unknown)
	}
	for _, tt := range []struct {
		name  string
		maker Maker
		now   string // its account
		gone  bool
		root  bool // a daemon of another user has its own rights alone
	}{
		{"it has all that it had", Maker{UID: uid, GID: groups[0], Given: groups}, "team", false, false},
		{"it has lost a group", Maker{UID: uid, GID: groups[0], Groups: more, Given: more}, "team", true, true},
		{"it has another account", Maker{UID: uid, GID: groups[0], Given: groups}, "other", true, false},
		{"it has no account", Maker{UID: uid, GID: groups[0], Given: groups}, "", true, false},
		{"its user is gone", Maker{UID: unknown, GID: unknown, Given: []int{unknown}}, "team", true, true},
		{"nobody knew its user", Maker{UID: unknown, GID: unknown}, "team", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root {
				needs.Root(t, "to take the rights of others")
			}
			_, err := tt.maker.user("team", func(int) (string, bool) { return tt.now, tt.now != "" })
			if got := codeOf(err) == "cron_author_gone"; got != tt.gone {
				t.Errorf("got %v, want that it is gone: %v", err, tt.gone)
			}
		})
	}
}
