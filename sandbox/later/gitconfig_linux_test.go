package later

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGitFilesThatAreNone: what a program puts where git has a file is not waited for,
// and counts as running something.
func TestGitFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(unix.Mkfifo(dir+"/fifo", 0o644), os.Symlink("/dev/zero", dir+"/link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fifo", "link", "absent"} {
		path := filepath.Join(dir, name)
		if to, _ := pointed(path, found{}); !gitConfigRuns(path) || to != "" || commonDir(path) != "" {
			t.Errorf("%s was read", name)
		}
	}
}

func TestGitTextRuns(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                                  false,
		"[core]\n\tbare = false\n":                          false,
		"[core]\n\tfsmonitor = x\n":                         true,
		"[CORE]\n\tFsMonitor = x\n":                         true,
		"[core] hooksPath = x\n":                            true,
		"[core]\n\tbare = \\\nfsmonitor = x\n":              false,
		"[diff \"]renames=x\"]command=./evil\n":             true,
		"[diff \"a\\\"]\"]command=./evil\n":                 true,
		"[core]bare=false\n[core]hooksPath":                 true,
		"[core]\r\n\tbare=\"false\" ; x\r\n\tpager = x\r\n": true,
		"[core]\n\tbare = \"x\n":                            true,
		"[core]\n\tbare = x\x00\n":                          true,
		"[alias]\n\tst = !x\n":                              true,
		"[filter \"x\"]\n\tclean = y\n":                     true,
		"[include]\n\tpath = x\n":                           true,
		"[remote \"origin\"]\n\turl = x\n\tfetch = +a:b\n":  false,
		"[remote \"origin\"]\n\tuploadpack = x\n":           true,
		"[core.fsmonitor]\n":                                false,
		"[core.x]fsmonitor\n":                               true,
		"[core\n":                                           true,
		"# fsmonitor = x\n[branch \"a b\"]\n\tremote = o\n": false,
		"[branch \"a]b\"]\n\tremote = o\n":                  false,
	} {
		if got := gitTextRuns(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
