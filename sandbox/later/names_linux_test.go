package later

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAChangeByAnotherName: no mount covers the other name of a file below a name that is kept whole.
func TestAChangeByAnotherName(t *testing.T) {
	bothWays(t, func(t *testing.T, x *Index) {
		ws, quarantine := t.TempDir(), t.TempDir()
		husky, hook := ws+"/.husky/pre-commit", ws+"/.git/hooks/pre-commit"
		for path, other := range map[string]string{husky: ws + "/one", hook: ws + "/two"} {
			err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("mine"), 0o755),
				os.Link(path, other))
			if err != nil {
				t.Fatal(err)
			}
		}
		trees := x.Trees([]string{ws})
		before := trees.State()
		began := time.Now()
		for _, other := range []string{ws + "/one", ws + "/two"} {
			for was := changed(t, other); changed(t, other) == was; { // the clock of file systems has steps
				if err := os.WriteFile(other, []byte("evil"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		var acts []string
		for _, c := range trees.Quarantine(before, began, quarantine) {
			acts = append(acts, c.Layer+": "+c.Act)
		}
		slices.Sort(acts)
		want := []string{
			taken + ": change " + hook + " by another of its names; it was moved to quarantine",
			noted + ": change " + husky + " by another of its names",
		}
		if !slices.Equal(acts, want) {
			t.Errorf("got %q, want %q", acts, want)
		}
		if exists(hook) || !exists(husky) {
			t.Errorf("the hook is there: %v, the file that is only told: %v", exists(hook), exists(husky))
		}
	})
}

func changed(t *testing.T, path string) unix.Timespec {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ctim
}
