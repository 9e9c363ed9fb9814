package guard

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse"
	"golang.org/x/sys/unix"
)

// Code is a file that a call executes: a program or script that its words name, or one that
// a program looks for by itself.
type Code struct {
	Path  string   // physical
	Names []string // absolute and clean: every path by which the call is known to open it
	// Absent says that the file does not exist. If it did, a program would take it instead of another one.
	Absent bool
}

// Place is where a call runs.
type Place interface {
	// LookPath returns where a program without a slash in its name is found, or "", and the paths that come before.
	LookPath(name string) (found string, before []string)
	// Exists reports whether the call can read a file at an absolute path.
	Exists(path string) bool
}

// CodeOf lists the files that a call executes. unbound says in words what else the call is known to
// execute: code that nobody can name before it runs, files that the call itself writes, and files
// that do not exist yet.
//
// It does not read the files, so it knows nothing of what they execute.
func (r *Rules) CodeOf(u Uses, at Place) (files []Code, unbound []string) {
	if u.Script == nil {
		return nil, nil
	}
	l := codeList{rules: r, uses: u, place: at, names: newNames(r.closedPlaces())}
	l.builtins = !slices.ContainsFunc(u.Script.Commands, func(c shellparse.Command) bool { return c.Name == "enable" })
	for i := range u.Script.Commands {
		l.command(&u.Script.Commands[i])
	}
	for _, o := range u.Script.Opaque {
		if !o.Words {
			l.not("%s", o.Message)
		}
	}
	return l.files, l.unbound
}

type codeList struct {
	rules   *Rules
	uses    Uses
	place   Place
	names   *names
	files   []Code
	unbound []string
	// builtins says that the shell itself runs those that it has.
	builtins bool
}

func (l *codeList) not(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(l.unbound, text) {
		l.unbound = append(l.unbound, text)
	}
}

func (l *codeList) command(c *shellparse.Command) {
	if c.Name == "" {
		l.not("%s, which is only known when it runs", c.Path)
		return
	}
	if !strings.Contains(c.Path, "/") && !c.Script && !(c.Builtin && l.builtins) {
		if found, before := l.place.LookPath(c.Path); found != "" {
			l.file(found, false)
			for _, path := range before {
				l.file(path, true)
			}
		}
	}
	for _, f := range c.Code {
		switch {
		case f.OnlyIfMissing != "" && l.names.isDir(f.OnlyIfMissing): // as in ScriptUses
		case !f.Known || !filepath.IsAbs(f.Path):
			l.not("%s, a file that is only known when it runs", f.Path)
		case f.Glob:
			l.not("the files that %s stands for", f.Path)
		default:
			l.file(f.Path, false)
		}
	}
	obeys, known := c.Obeys()
	if !known && len(c.Code) == 0 && !c.Script {
		l.not("what %s starts or reads by itself, which is not known here", c.Name)
	}
	for _, text := range obeys.Runs {
		l.not("%s: %s", strings.TrimSpace(c.Name+" "+c.Sub), text)
	}
	var absent []string
	for _, list := range obeys.First {
		if !c.Told {
			absent = append(absent, l.first(c, list)...)
		}
	}
	if len(absent) > 0 {
		l.not("%s, which %s would take if it appeared", either(absent), c.Name)
	}
}

// first adds the file of a list that a program finds first, and those that it would find earlier if they existed. If
// none exists, the call may be about to make one: then it returns the names.
func (l *codeList) first(c *shellparse.Command, list []string) (absent []string) {
	if c.Dir == "" {
		names := strings.ReplaceAll(strings.Join(list, ", "), "^", "")
		l.not("%s: %s in a directory that is only known when it runs", c.Name, names)
		return nil
	}
	anywhere, here := strings.Contains(strings.Join(list, " "), "^"), 0 // how many are absent in dir
	for dir, up := filepath.Clean(c.Dir), false; ; dir, up = filepath.Dir(dir), true {
		for _, name := range list {
			rest, above := strings.CutPrefix(name, "^")
			if up && !above {
				continue
			}
			path := filepath.Join(dir, rest)
			if l.place.Exists(path) {
				l.file(path, false)
				for _, earlier := range absent {
					l.file(earlier, true)
				}
				return nil
			}
			absent = append(absent, path)
		}
		if !up {
			here = len(absent)
		}
		if dir == "/" || !anywhere {
			return absent[:here]
		}
	}
}

// either joins a list with "or".
func either(all []string) string {
	if len(all) > 3 {
		return fmt.Sprintf("%s or %d others", strings.Join(all[:2], ", "), len(all)-2)
	}
	return strings.Join(all, " or ")
}

// file adds a file by the name with which it is opened, unless the call itself writes it.
func (l *codeList) file(name string, absent bool) {
	physical, err := l.rules.physical(name, "/", l.names)
	if err != nil {
		l.not("%s: %v", name, err)
		return
	}
	if l.written(physical) {
		l.not("%s, which the call writes itself", physical)
		return
	}
	names := []string{physical}
	if clean := filepath.Clean(name); clean != physical {
		if again, err := l.rules.physical(clean, "/", l.names); err != nil || again != physical {
			l.not("%s: its path leads through a link and back", name)
			return
		}
		names = append(names, clean)
	}
	for i := range l.files {
		if f := &l.files[i]; f.Path == physical {
			for _, n := range names {
				if !slices.Contains(f.Names, n) {
					f.Names = append(f.Names, n)
				}
			}
			return
		}
	}
	l.files = append(l.files, Code{Path: physical, Names: names, Absent: absent})
}

func (l *codeList) written(path string) bool {
	for _, p := range l.uses.Paths {
		if p.Op != Write {
			continue
		}
		if p.Path == path || p.Recursive && Within(path, p.Path) {
			return true
		}
		if ok, _ := filepath.Match(p.Path, path); p.Glob && ok {
			return true
		}
	}
	return false
}

// OnlyRoot reports whether only root can change or make what an absolute path names, as far as owners and modes say.
// That includes all names on the way, and links.
func OnlyRoot(path string) bool {
	only := ofRoot("/")
	ends := alongLinks(path, func(name string) bool {
		only = only && ofRoot(name)
		return only
	})
	return only && ends
}

func ofRoot(name string) bool {
	var st unix.Stat_t
	switch err := unix.Lstat(name, &st); {
	case err == unix.ENOENT:
		return true // whoever can make it can write its directory, which was checked
	case err != nil:
		return false
	}
	return st.Uid == 0 && (st.Mode&unix.S_IFMT == unix.S_IFLNK || st.Mode&0o022 == 0)
}
