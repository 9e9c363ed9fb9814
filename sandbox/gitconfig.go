package sandbox

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// gitHarmless are the keys of a repository's configuration that make git run
// nothing: a section, its subsections left out, and its keys. What is not here may
// name a program (core.fsmonitor, core.hooksPath, filter.x.clean, alias.x, …).
var gitHarmless = map[string]string{
	"core":       "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol safecrlf quotepath abbrev sparsecheckout sparsecheckoutcone worktree longpaths untrackedcache commitgraph multipackindex",
	"remote":     "url fetch push pushurl prune prunetags tagopt mirror promisor partialclonefilter skipdefaultupdate skipfetchall",
	"branch":     "remote merge rebase description pushremote autosetuprebase autosetupmerge",
	"user":       "name email signingkey useconfigonly",
	"author":     "name email",
	"committer":  "name email",
	"submodule":  "url active branch path ignore fetchrecursesubmodules shallow recurse",
	"extensions": "objectformat partialclone worktreeconfig preciousobjects refstorage compatobjectformat noop",
	"pull":       "rebase ff", "push": "default autosetupremote followtags", "fetch": "prune prunetags parallel writecommitgraph",
	"init": "defaultbranch", "commit": "gpgsign verbose cleanup status", "tag": "gpgsign sort",
	"merge": "conflictstyle ff renames stat", "rebase": "autostash autosquash updaterefs", "rerere": "enabled autoupdate",
	"gc": "auto autodetach prunexpire", "index": "version threads sparse", "feature": "manyfiles", "lfs": "repositoryformatversion",
	"status": "showuntrackedfiles short branch", "log": "date decorate follow", "diff": "renames algorithm noprefix mnemonicprefix colormoved",
}

// maxGitConfig is far more than a repository's own configuration has.
const maxGitConfig = 256 << 10

// gitConfigRuns reports whether git may run a program because of this file. What
// cannot be read or understood counts as such.
func gitConfigRuns(path string) bool {
	text, ok := readSmall(path, maxGitConfig)
	if !ok || gitTextRuns(text) {
		return true
	}
	// A submodule says where its files are. Anywhere else git would write over what a
	// person has there.
	for _, tree := range gitValues(text, "worktree") {
		super, _, ok := strings.Cut(path, "/.git/modules/")
		if !ok || filepath.IsAbs(tree) || !Within(filepath.Join(filepath.Dir(path), tree), super) {
			return true
		}
	}
	return false
}

// gitValues are the values of a key in all sections.
func gitValues(text, key string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			_, line, _ = strings.Cut(line, "]")
		}
		if name, value, ok := strings.Cut(line, "="); ok && strings.EqualFold(strings.TrimSpace(name), key) {
			out = append(out, strings.Trim(strings.TrimSpace(value), `"`))
		}
	}
	return out
}

func gitTextRuns(text string) bool {
	keys := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			head, rest, ok := strings.Cut(line[1:], "]")
			section, sub, _ := strings.Cut(head, " ")
			if !ok || strings.Contains(section, ".") || strings.ContainsAny(sub, "\\]") {
				return true
			}
			keys, ok = gitHarmless[strings.ToLower(section)]
			if !ok {
				return true
			}
			line = strings.TrimSpace(rest)
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, _, _ := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		// A line that goes on could hold anything in its second half.
		if strings.HasSuffix(line, `\`) || strings.ContainsAny(key, " \t\"") || !strings.Contains(" "+keys+" ", " "+key+" ") {
			return true
		}
	}
	return false
}

// gitFileRuns reports whether something at a path of [gitPaths] or [gitMore] makes git
// run what the workspace holds.
func gitFileRuns(path string) bool {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return hooksRun(path)
	case filepath.Base(path) == "commondir":
		// A worktree names the repository that it lies in; any other brings its own
		// configuration.
		dir := filepath.Dir(path)
		common := firstLine(path)
		if !filepath.IsAbs(common) {
			common = filepath.Join(dir, common)
		}
		return !Within(dir, common) || dir == common
	case filepath.Base(path) == ".git":
		return false // a pointer; what it points at is looked at by itself
	}
	return gitConfigRuns(path)
}

// hooksRun reports whether a directory of hooks holds one that git would start.
func hooksRun(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return true
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 != 0 && !strings.HasSuffix(e.Name(), ".sample") {
			return true
		}
	}
	return false
}

// maxPointer is far more than a .git file or a commondir needs.
const maxPointer = 8 << 10

func firstLine(path string) string {
	text, _ := readSmall(path, maxPointer)
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

// readSmall reads a regular file that is no larger than that. A program may put a FIFO
// in its place at any moment, and nobody waits for who writes to that.
func readSmall(path string, most int64) (string, bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return "", false
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	return string(b), err == nil
}
