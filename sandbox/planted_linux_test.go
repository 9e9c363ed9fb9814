package sandbox

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
)

// TestX18_LinkInThePlaceOfARoot: a program puts a link where the settings name a
// directory in the tree that it writes; no later call, of whatever session, and no file
// tool may therefore read or write what the link leads to.
func TestX18_LinkInThePlaceOfARoot(t *testing.T) {
	bothUsers(t, func(t *testing.T) { bothLevels(t, linkInThePlaceOfARoot) })
}

func linkInThePlaceOfARoot(t *testing.T, cage Backend) {
	base := shortTemp(t)
	writeTree(t, base+"/victim/file")
	writeTree(t, base+"/real/file")
	for _, link := range []string{"/ws", "/outside"} { // a person's own
		if err := os.Symlink("real", base+link); err != nil {
			t.Fatal(err)
		}
	}
	ws := base + "/ws"
	s := guard.Settings{AllowedReadPaths: []string{ws, ws + "/in"}, AllowedWritePaths: []string{ws, ws + "/out"}}
	start := func(session, script string) string {
		t.Helper()
		box, err := cage.Box(context.Background(), session, "strict", s)
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		_, out := runIn(t, box, base+"/real", "sh", "-c", script)
		return out
	}
	if out := start("a", "ln -s "+base+"/victim out && ln -s ../victim in && echo made"); out != "made\n" {
		t.Fatal(out)
	}
	start("b", "echo x > out/new; cat in/file > copy; rm "+base+"/victim/file")
	if b, err := os.ReadFile(base + "/real/copy"); string(b) != "" || !exists(base+"/victim/file") ||
		exists(base+"/victim/new") {
		t.Errorf("read %q, %v; the file is there: %v; a new one: %v", b, err, exists(base+"/victim/file"),
			exists(base+"/victim/new"))
	}
	box, err := cage.Box(context.Background(), "c", "strict", s)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	for _, op := range []guard.Op{guard.Read, guard.Write} {
		if f, err := box.Open(context.Background(), guard.PathUse{Path: base + "/victim/file", Op: op},
			os.O_RDONLY); err == nil {
			f.Close()
			t.Errorf("a file tool may %s it", op)
		}
	}
	n, warnings, err := s.Normalise()
	if err != nil || len(warnings) != 2 || !strings.Contains(warnings[0], "not followed") {
		t.Errorf("warnings %q, %v", warnings, err)
	}
	if want := []string{base + "/real"}; !slices.Equal(n.AllowedWritePaths, want) {
		t.Errorf("writable %q, want %q", n.AllowedWritePaths, want)
	}
	again, _, err := n.Normalise()
	if err != nil || !slices.Equal(again.AllowedWritePaths, n.AllowedWritePaths) {
		t.Errorf("and once more %q, %v", again.AllowedWritePaths, err)
	}
	if n, _, err := (guard.Settings{
		AllowedReadPaths:  []string{ws + "/in"},
		AllowedWritePaths: []string{ws},
	}).Normalise(); err != nil ||
		!slices.Equal(n.AllowedReadPaths, []string{guard.NoPath}) {
		t.Errorf("readable %q, %v; an empty list would mean everything", n.AllowedReadPaths, err)
	}
	// A link that no program can make is followed.
	s.AllowedWritePaths = []string{base + "/outside"}
	if n, _, err := s.Normalise(); err != nil || n.AllowedWritePaths[0] != base+"/real" {
		t.Errorf("writable %q, %v", n.AllowedWritePaths, err)
	}
}
