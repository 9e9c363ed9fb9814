package later

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sandboxd/sandboxd/guard"
)

// gitFileRuns reports whether a file of [gitKeep] makes git run a program of the
// workspace.
func gitFileRuns(path string) bool {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return hooksRun(path)
	}
	return gitConfigRuns(path)
}

// harmlessTodo are the commands of a rebase that start no program of the workspace. From
// sequencer.c of git; "merge" takes no program.
var harmlessTodo = strings.Fields("pick p reword r edit e squash s fixup f drop d label l reset t merge m " +
	"update-ref u noop break b revert")

// harmlessStrategies are those that git brings along. Any other name is a program.
var harmlessStrategies = strings.Fields("ort recursive resolve octopus ours subtree")

// gitRuns returns what of a file of [gitRead] makes git run a program, a line each; "" if
// nothing does. What cannot be read is the first kind.
func gitRuns(path string) string {
	switch filepath.Base(path) {
	case "commondir":
		// A worktree names the repository above itself. Any other repository has a
		// configuration of its own.
		dir := filepath.Dir(path)
		common, links := resolve(commonDir(path))
		if common == "" || len(links) > 0 || !guard.Within(dir, common) || dir == common {
			return commonRuns + common
		}
		return ""
	case "git-rebase-todo":
		return linesThatRun(path, func(line string) bool {
			command, _, _ := strings.Cut(line, " ")
			return !slices.Contains(harmlessTodo, command)
		})
	case "strategy":
		return linesThatRun(path, func(line string) bool { return !slices.Contains(harmlessStrategies, line) })
	}
	// The options of a cherry-pick, in the form of a configuration.
	text, ok := readSmall(path, maxGitConfig)
	if !ok {
		return unreadableFile
	}
	entries, err := parseGit(text)
	if err != nil {
		return unreadableFile
	}
	var foreign []string
	for _, e := range entries {
		if e.name == "strategy" && !slices.Contains(harmlessStrategies, e.value) {
			foreign = append(foreign, e.value)
		}
	}
	return joined(foreign, text)
}

// commonRuns stands for what a commondir runs if it does not lead above itself; the path to which
// it leads follows.
const commonRuns = "commondir "

// unreadableFile stands for what a file would run that cannot be read.
const unreadableFile = "a file that cannot be read"

// maxTodo bounds what is read of a rebase's list.
const maxTodo = 4 << 20

// linesThatRun returns the lines of a file for which runs holds.
func linesThatRun(path string, runs func(line string) bool) string {
	text, ok := readSmall(path, maxTodo)
	if !ok {
		return unreadableFile
	}
	lines := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.Trim(strings.ReplaceAll(line, "\t", " "), " \r\n")
		if line != "" && line[0] != '#' && line[0] != ';' && !lines[line] && runs(line) {
			lines[line] = true
		}
	}
	return joined(slices.Collect(maps.Keys(lines)), text)
}

// maxRuns bounds what is remembered of a file. No person's rebase has so many programs.
const maxRuns = 4 << 10

// joined returns lines of a text in order, or what stands for the text if they are too many.
func joined(lines []string, text string) string {
	slices.Sort(lines)
	if all := strings.Join(lines, "\n"); len(all) <= maxRuns {
		return all
	}
	return fmt.Sprintf("%d lines (%x)", len(lines), sha256.Sum256([]byte(text)))
}

// runsMore returns what one list has that the other one has not: git leaves what a person's
// own rebase still has to do.
func runsMore(now, before string) string {
	had := strings.Split(before, "\n")
	more := slices.DeleteFunc(strings.Split(now, "\n"), func(line string) bool {
		return line == "" || slices.Contains(had, line)
	})
	return strings.Join(more, "; ")
}

// commonDir returns the directory that a commondir names, "" if it cannot be read.
func commonDir(path string) string {
	text, ok := readSmall(path, maxPointer)
	if !ok {
		return ""
	}
	return from(filepath.Dir(path), gitPath(text))
}

// pointed returns the git directory that a .git file or link names, "" if it names none, and
// whether that is known.
func pointed(path string, f found) (string, bool) {
	file := path
	if f.link != "" {
		if file, _ = resolve(path); isDir(file) {
			return path, true
		}
	}
	text, ok := readSmall(file, maxPointer)
	if !ok {
		info, err := os.Lstat(file)
		return "", err != nil || !info.Mode().IsRegular() || info.Size() > maxPointer // git refuses these
	}
	dir, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return "", true
	}
	return from(filepath.Dir(path), gitPath(dir)), true
}

// gitPath returns the path that is the rest of a file, as git reads it: it may have line
// breaks and white space in it.
func gitPath(text string) string {
	path, _, _ := strings.Cut(strings.TrimRight(text, "\r\n"), "\x00")
	return path
}

// from returns where a path leads that is meant from a directory. It is not cleaned, for
// what is before ".." may be a link.
func from(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// maxPointer bounds what is read of a .git file or a commondir. It is what git reads of a
// .git file.
const maxPointer = 1 << 20

// readSmall reads a regular file of at most so many bytes. It never waits: a program may
// put a FIFO in the place of the file at any moment.
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
