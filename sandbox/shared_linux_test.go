package sandbox

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
)

// TestWhatTheCallsOfASessionShare: private files and caches. Shared memory is each call's own under strict, so that a
// file that is left there holds no memory.
func TestWhatTheCallsOfASessionShare(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage, "userns")
	ws := shortTemp(t)
	for _, profile := range Profiles {
		t.Run(string(profile), func(t *testing.T) {
			box := newBox(t, cage, profile, guard.Settings{AllowedWritePaths: []string{ws}})
			const places = `for d in /tmp /dev/shm "$GOCACHE" "$XDG_CACHE_HOME"; do `
			const leave = places + `mkdir -p "$d"; echo x >"$d/left" || exit; done`
			if e, out := runIn(t, box, ws, "sh", "-c", leave); e.Code != 0 {
				t.Fatalf("%+v %s", e, out)
			}
			const look = places + `test -e "$d/left" && echo "$d"; done; true`
			want := []string{"/tmp", "/run/go-build", "/run/cache/xdg"}
			if profile != "strict" {
				want = slices.Insert(want, 1, "/dev/shm")
			}
			if _, out := runIn(t, box, ws, "sh", "-c", look); !slices.Equal(strings.Fields(out), want) {
				t.Errorf("the next call finds what was left in %q, want %q", strings.Fields(out), want)
			}
		})
	}
}

// TestANamedDirectoryThatIsMadeLater is shown from the next call on.
func TestANamedDirectoryThatIsMadeLater(t *testing.T) {
	cage := newCage(t, Options{})
	needCage(t, cage, "userns")
	base := shortTemp(t)
	ws, write, read := base+"/ws", base+"/write", base+"/read"
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir, s := range map[string]guard.Settings{
		write: {AllowedWritePaths: []string{ws, write}},
		read:  {AllowedWritePaths: []string{ws}, AllowedReadPaths: []string{ws, read}},
	} {
		argv := []string{"ls", dir}
		if dir == write {
			argv = []string{"touch", dir + "/x"}
		}
		box := newBox(t, cage, "strict", s)
		if e, out := runIn(t, box, ws, argv...); e.Code == 0 {
			t.Errorf("%s is there before it was made: %s", dir, out)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if e, out := runIn(t, box, ws, argv...); e.Code != 0 {
			t.Errorf("%s after it was made: %+v %s", dir, e, out)
		}
	}
}
