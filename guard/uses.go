package guard

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse"
)

const fewPaths = 16

// ScriptUses lists the files that a script would touch, by the physical paths
// they have now. dir is the one that the script was parsed with. It does not look into
// places that the rules deny; nil rules deny none.
func (r *Rules) ScriptUses(s *shellparse.Script, dir string) Uses {
	// All of it is one piece of memory, since every line needs it.
	m := &struct {
		uses Uses
		tree names
		git  tracker
		lost losses
	}{uses: Uses{Script: s}, tree: names{closed: r.closedPlaces()}}
	u, tree, git, lost := &m.uses, &m.tree, &m.git, &m.lost
	*git = tracker{rules: r, names: tree}
	*lost = losses{rules: r, git: git, uses: u, dir: dir}
	n := len(s.Files)
	for i := range s.Commands {
		n += len(s.Commands[i].Files)
	}
	if n > 0 {
		u.Paths = make([]PathUse, 0, n)
	}
	var seen map[PathUse]bool // from fewPaths on; before, to compare is faster
	loses := mayLose(s)
	var makers []string
	var paths []string // of the files of one command, if it may lose something
	note := func(use PathUse) {
		switch {
		case len(u.Paths) < fewPaths:
			if slices.Contains(u.Paths, use) {
				return
			}
		case seen == nil:
			seen = make(map[PathUse]bool, 2*fewPaths)
			for _, p := range u.Paths {
				seen[p] = true
			}
			fallthrough
		default:
			if seen[use] {
				return
			}
			seen[use] = true
		}
		u.Paths = append(u.Paths, use)
	}
	add := func(files []shellparse.File, command int) {
		paths = paths[:0]
		for _, f := range files {
			if f.OnlyIfMissing != "" && tree.isDir(f.OnlyIfMissing) {
				paths = append(paths, "")
				continue // the cd that has to fail for this will not fail
			}
			use := r.fileUse(f, dir, tree)
			path := ""
			if loses {
				path = lost.one(use)
				paths = append(paths, path)
			}
			if f.Access == Write && command >= 0 {
				if makers == nil {
					makers = s.Makers()
				}
				use.From = makers[command]
			}
			note(use)
			if !use.Glob || use.Path == "" {
				continue
			}
			named := []string{path}
			if path == "" || f.Access != Write {
				named = r.standsFor(use.Path, tree)
			}
			for _, path := range named {
				use.Path, use.Glob = path, false
				note(use)
			}
		}
	}
	for i := range s.Commands {
		add(s.Commands[i].Files, i)
		if e := s.Commands[i].Effects; e != nil {
			r.effects(u, i, e, dir, git)
		}
		if loses {
			lost.command(i, &s.Commands[i], paths)
		}
	}
	add(s.Files, -1)
	lost.loose(s.Files)
	return *u
}

func (r *Rules) fileUse(f shellparse.File, dir string, tree *names) PathUse {
	use := PathUse{Raw: f.Path, Op: f.Access, Recursive: f.Recursive, Glob: f.Glob, At: f.At, Guess: f.Guess}
	use.Looks, use.Makes = f.Looks, f.Makes
	if !f.Known {
		use.Problem = "depends on something that is only known when it runs"
		return use
	}
	path, pattern := f.Path, ""
	if f.Glob {
		path, pattern = splitGlob(f.Path)
		if throughProc(path, pattern) {
			use.Problem = "may go through /proc/PID, which means something else in every process"
			return use
		}
	}
	resolved, err := r.physical(path, dir, tree)
	if err != nil {
		use.Problem = err.Error()
		if pe := (*PathError)(nil); errors.As(err, &pe) {
			use.Problem = strings.TrimPrefix(pe.Msg, "path '"+pe.Path+"' ")
		}
		return use
	}
	use.Path = resolved
	if pattern != "" {
		use.Path = filepath.Join(escapeGlob(resolved), pattern)
	}
	return use
}

// fewMatches is how many names of a pattern are named one by one, so that rules about names see them.
const fewMatches = 8

// standsFor returns the files that a pattern means, if they are few: those that it matches, or the one that has the
// pattern for its name, which is what the shell leaves of one that matches nothing. In a closed place nobody looks.
func (r *Rules) standsFor(pattern string, tree *names) []string {
	found, _ := matched(pattern, tree)
	if len(found) > fewMatches {
		return nil
	}
	var out []string
	for _, path := range append(found, literal(pattern)) {
		path, err := r.physical(path, "/", tree)
		if err != nil || slices.Contains(out, path) {
			continue
		}
		if _, err := os.Lstat(path); err == nil || tree.hides(path) {
			out = append(out, path)
		}
	}
	return out
}

// throughProc reports whether a pattern may lead through the links of a process,
// such as /proc/*/root.
func throughProc(dir, pattern string) bool {
	segs := strings.Split(pattern, "/")
	if dir == "/" {
		if ok, err := filepath.Match(segs[0], "proc"); !ok && err == nil {
			return false
		}
		segs = segs[1:]
	} else if strings.TrimRight(dir, "/") != "/proc" {
		return false
	}
	if len(segs) < 2 {
		return false
	}
	for _, link := range []string{"cwd", "root", "fd", "exe", "task", "map_files", "ns"} {
		if ok, err := filepath.Match(segs[1], link); ok || err != nil {
			return true
		}
	}
	return false
}

// splitGlob parts a pattern in front of the first segment that is one. What is escaped in the
// segments before, such as the brackets of a directory [id], stands for itself; dir is without the
// escapes. The shell parser leaves no ".." behind that.
func splitGlob(p string) (dir, pattern string) {
	end := 0
	for end < len(p) {
		next := end + 1
		for next < len(p) && p[next] != '/' {
			switch p[next] {
			case '*', '?', '[':
				return cmp.Or(globUnescaper.Replace(p[:end]), "/"), strings.TrimPrefix(p[end:], "/")
			case '\\':
				next++
			}
			next++
		}
		end = min(next, len(p))
	}
	return globUnescaper.Replace(p), ""
}

var globUnescaper = strings.NewReplacer(`\\`, `\`, `\*`, `*`, `\?`, `?`, `\[`, `[`, `\]`, `]`)

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

func escapeGlob(s string) string { return globEscaper.Replace(s) }
