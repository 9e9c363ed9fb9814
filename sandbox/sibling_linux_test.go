package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
)

// A directory beside the workspace that a person opened is made and can be written. Nothing else beside the workspace
// is, and a link that lies there by then opens nothing.
func TestSiblingsAreOpenedAlone(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		cage := newCage(t, Options{})
		needCage(t, cage)
		base, err := os.MkdirTemp("/var/tmp", "cage-") // /tmp is the cage's own
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(base) })
		ws := filepath.Join(base, "ws")
		for _, d := range []string{ws, filepath.Join(base, "other")} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		settings := guard.Settings{AllowedWritePaths: []string{ws}}
		try := func(name string) (string, error) {
			s := []guard.Sibling{{Path: filepath.Join(base, name)}}
			box := newBox(t, cage, ProfileStrict, settings.WithSiblings(s))
			if err := OpenSiblings(context.Background(), box, s); err != nil {
				return "", err
			}
			runIn(t, box, ws, "sh", "-c", `for d in new other link .; do touch ../$d/x; done`)
			var wrote []string
			for _, d := range []string{"new", "other", "."} {
				if os.Remove(filepath.Join(base, d, "x")) == nil {
					wrote = append(wrote, d)
				}
			}
			return strings.Join(wrote, " "), nil
		}

		if out, err := try("new"); out != "new" || err != nil {
			t.Errorf("with new: wrote in %q, %v", out, err)
		}
		if info, err := os.Stat(filepath.Join(base, "new")); err != nil || !info.IsDir() {
			t.Errorf("new was not made: %v", err)
		}
		if out, err := try("other"); out != "other" || err != nil {
			t.Errorf("with other: wrote in %q, %v", out, err)
		}

		// Judged as a directory, and a link now.
		if err := os.Symlink("other", filepath.Join(base, "link")); err != nil {
			t.Fatal(err)
		}
		if out, err := try("link"); err == nil {
			t.Errorf("a link was opened, and a program wrote in %q", out)
		}
		// Prepared while it was a directory.
		if err := os.Remove(filepath.Join(base, "new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("other", filepath.Join(base, "new")); err != nil {
			t.Fatal(err)
		}
		if out, err := try("new"); err == nil {
			t.Errorf("a link in place of a directory was opened, and a program wrote in %q", out)
		}
		if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := try("file"); err == nil || !strings.Contains(err.Error(), "file") {
			t.Errorf("a file: %v", err)
		}
	})
}
