package later

import (
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/guard"
)

//go:embed harmless.txt
var harmlessText string

// harmless are the keys of harmless.txt, as "section.key".
var harmless = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(harmlessText) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out[line] = true
		}
	}
	return out
})

// maxGitConfig bounds what is read of a configuration. No repository's own is as large.
const maxGitConfig = 1 << 20

// gitConfigRuns reports whether git may run a program because of this file. It may if
// the file cannot be read or understood.
func gitConfigRuns(path string) bool {
	text, ok := readSmall(path, maxGitConfig)
	if !ok || gitTextRuns(text) {
		return true
	}
	// A submodule names the directory of its files. Outside of its superproject git would
	// overwrite a person's files.
	entries, _ := parseGit(text)
	for _, e := range entries {
		for _, tree := range e.values() {
			super, _, ok := strings.Cut(path, "/.git/modules/")
			if e.name == "worktree" &&
				(!ok || filepath.IsAbs(tree) || !guard.Within(filepath.Join(filepath.Dir(path), tree), super)) {
				return true
			}
		}
	}
	return false
}

// gitTextRuns reports whether a configuration has a key that is not in harmless.txt, or
// cannot be understood.
func gitTextRuns(text string) bool {
	entries, err := parseGit(text)
	return err != nil || slices.ContainsFunc(entries, func(e gitEntry) bool { return !e.harmless() })
}

func (e gitEntry) harmless() bool { return harmless()[e.section+"."+e.name] }

// hooksRun reports whether a directory of hooks holds one that git would run.
func hooksRun(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return true
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			return true
		}
		if info.Mode().Perm()&0o111 != 0 && !strings.HasSuffix(e.Name(), ".sample") {
			return true
		}
	}
	return false
}
