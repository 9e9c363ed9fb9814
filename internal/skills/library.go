package skills

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/sandbox"
)

// dep is a file or directory that a package was read from, with its state at that time.
type dep struct {
	path string
	was  stamp
}

// entry is one directory of a package, as it was read.
type entry struct {
	skill   Skill
	err     error // the reason if it is no skill
	deps    []dep
	settled bool // no file had changed shortly before the read
	linked  bool // the directory is reached by a link
}

// fresh reports whether none of its files has changed since the read.
func (e *entry) fresh() bool {
	return e.settled && !slices.ContainsFunc(e.deps, func(d dep) bool {
		info, err := os.Stat(d.path)
		return err != nil || stampOf(info) != d.was
	})
}

// Library finds packages. It caches their front matter and reads again only packages that have changed. It is safe
// for concurrent use.
type Library struct {
	mu   sync.Mutex // guards dirs
	dirs map[string]*shelf
}

// fewPackages is the number of packages up to which one thread reads them all.
const fewPackages = 32

// maxShelves bounds the directories that a library caches.
const maxShelves = 256

// shelf caches one directory of packages.
type shelf struct {
	mu      sync.Mutex // guards entries
	entries map[string]*entry
}

// dir is a directory to search.
type dir struct {
	path string
	base string       // the workspace, or ""; nothing outside it is read
	user sandbox.User // the user whose rights the reads have
}

func (l *Library) shelf(d dir) *shelf {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := d.path + "\x00" + d.base + "\x00" + d.user.Rights()
	s, known := l.dirs[key]
	if !known {
		if len(l.dirs) >= maxShelves || l.dirs == nil {
			l.dirs = map[string]*shelf{}
		}
		s = &shelf{entries: map[string]*entry{}}
		l.dirs[key] = s
	}
	return s
}

// scan returns the entries of a directory by name. It reads several packages at the same time.
func (l *Library) scan(d dir) (names []string, entries map[string]*entry) {
	s := l.shelf(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []fs.DirEntry
	_ = d.user.Do(func() (err error) {
		list, err = d.list()
		return err
	})
	found := make([]*entry, len(list))
	var each sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), 1+len(list)/fewPackages)
	for first := range workers {
		each.Go(func() {
			_ = d.user.Do(func() error { // a thread has the rights, so each sets them
				for i := first; i < len(list); i += workers {
					if known := s.entries[list[i].Name()]; known != nil && known.fresh() {
						found[i] = known
					} else {
						found[i] = d.read(list[i])
					}
				}
				return nil
			})
		})
	}
	each.Wait()
	entries = make(map[string]*entry, len(list))
	for i, e := range found {
		if e == nil || errors.Is(e.err, fs.ErrNotExist) {
			continue // a directory without a SKILL.md
		}
		name := list[i].Name()
		names, entries[name] = append(names, name), e
	}
	s.entries = entries
	return names, entries
}

// list returns the subdirectories of a directory, and the links in it that may lead to directories.
func (d dir) list() ([]fs.DirEntry, error) {
	open, err := place{dir: d.path, base: d.base}.open()
	if err != nil {
		return nil, err
	}
	defer open.close()
	f, err := open.file(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found, _ := f.ReadDir(maxEntries)
	found = slices.DeleteFunc(found, func(e fs.DirEntry) bool {
		return !e.IsDir() && e.Type()&fs.ModeSymlink == 0 || strings.HasPrefix(e.Name(), ".")
	})
	slices.SortFunc(found, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return found, nil
}

func (d dir) read(found fs.DirEntry) *entry {
	began := time.Now()
	at := place{dir: filepath.Join(d.path, found.Name()), base: d.base, user: d.user}
	e := entry{linked: !found.IsDir()}
	e.skill, e.deps, e.err = at.load()
	e.settled = !slices.ContainsFunc(e.deps, func(d dep) bool {
		return began.Sub(time.Unix(0, d.was.ctime)) < settled
	}) && len(e.deps) > 0 && e.err == nil
	return &e
}

// Ignored is a directory whose SKILL.md is not accepted, with the reason.
type Ignored struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Set holds the skills of a session, the built-in ones first.
type Set struct {
	Skills  []Skill
	Ignored []Ignored

	at map[string]int // index in Skills, by name
}

// off returns the directories whose packages are ignored because Workspace is false.
func (p Places) off(cwd string) (list []Ignored) {
	if p.Workspace {
		return nil
	}
	p.Workspace = true
	for _, d := range p.dirs(cwd) {
		if d.base == "" {
			continue
		}
		_ = d.user.Do(func() error {
			if found, err := d.list(); err == nil && len(found) > 0 {
				list = append(list, Ignored{d.path, "agents write there, so its skills are not the user's; " +
					"skills.workspace: true in the configuration lets them count"})
			}
			return nil
		})
	}
	return list
}

// Places says where to search for the skills of a session.
type Places struct {
	Home      string   // home directory of the daemon's user
	Dirs      []string // searched instead of the usual directories
	Names     []string // find these packages only; empty: all
	Workspace bool     // also search the session's own directory
	Roots     []string // directories that sessions can write
	User      sandbox.User
}

// Of returns the skills of a session that works in a directory, given by its physical path.
func (l *Library) Of(cwd string, p Places) Set {
	s := Set{at: map[string]int{}}
	for _, k := range builtins(cwd) {
		s.put(k)
	}
	seen := map[stamp]bool{}
	for _, d := range p.dirs(cwd) {
		names, entries := l.scan(d)
		for _, name := range names {
			e := entries[name]
			if e.err != nil {
				s.ignore(filepath.Join(d.path, name), reason(e.err))
				continue
			}
			k := e.skill
			id := stamp{dev: e.deps[0].was.dev, ino: e.deps[0].was.ino}
			if seen[id] || len(p.Names) > 0 && !slices.Contains(p.Names, k.Name) {
				continue
			}
			seen[id] = true
			if k.Source = User; d.base != "" {
				k.Source = Workspace
			} else if p.written(k.place.dir, cwd, e.linked) || p.written(k.place.dir+"/"+fileName, cwd, k.linked) {
				s.ignore(k.place.dir, "it leads into a directory that sessions write, which is not the user's")
				continue
			}
			s.put(k)
		}
	}
	s.tell()
	return s
}

// dirs returns the directories to search, the one with the lowest precedence first.
func (p Places) dirs(cwd string) []dir {
	paths := p.Dirs
	if len(paths) == 0 && p.Home != "" {
		for _, d := range []string{".config/agents/skills", ".agents/skills", ".claude/skills"} {
			paths = append(paths, filepath.Join(p.Home, d))
		}
	}
	places := append([]string{cwd}, p.Roots...)
	var list []dir
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			real = path
		}
		in := slices.IndexFunc(places, func(place string) bool { return below(real, place) })
		if in < 0 {
			list = append(list, dir{path: path, user: sandbox.Daemon()})
		} else if p.Workspace { // agents can write there, whoever named the directory
			list = append(list, dir{path: real, base: places[in], user: p.User})
		}
	}
	if len(p.Dirs) == 0 && p.Workspace {
		for _, d := range []string{".agents/skills", ".claude/skills"} {
			list = append(list, dir{path: filepath.Join(cwd, d), base: cwd, user: p.User})
		}
	}
	return list
}

// written reports whether sessions can write a package of the user. It follows a link.
func (p Places) written(path, cwd string, link bool) bool {
	if link {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return true
		}
		path = real
	}
	return below(path, cwd) || slices.ContainsFunc(p.Roots, func(root string) bool { return below(path, root) })
}

func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func (s *Set) ignore(path, why string) { s.Ignored = append(s.Ignored, Ignored{path, why}) }

func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		if errors.Is(err, fs.ErrPermission) {
			return fileName + " cannot be read: permission denied"
		}
		return fileName + " cannot be read: " + p.Err.Error()
	}
	return err.Error()
}

// put adds a skill. It replaces a skill of the same name together with its aliases (K-06).
func (s *Set) put(k Skill) {
	i, taken := s.at[k.Name]
	if !taken {
		s.at[k.Name] = len(s.Skills)
		s.Skills = append(s.Skills, k)
		return
	}
	if was := s.Skills[i]; k.Source == Workspace {
		k.Replaces = was.Replaces
		if was.Source != Workspace {
			k.Replaces = was.Source
		}
	}
	s.Skills[i] = k
}

// tell notes for each skill of the workspace which names it takes from other skills. It cannot take their aliases.
func (s *Set) tell() {
	held := map[string]string{} // by alias: the name of its skill
	for _, k := range s.Skills {
		for _, alias := range k.Aliases {
			if k.Source != Workspace {
				held[alias] = k.Name
			}
		}
	}
	for i := range s.Skills {
		k := &s.Skills[i]
		if k.Source != Workspace {
			continue
		}
		told := slices.Clone(k.Diagnostics) // a copy, because the library caches the original
		if k.Replaces != "" {
			told = append(told, "it takes the place of "+k.Replaces.skill()+" of its name")
		}
		if other, taken := held[k.Name]; taken {
			told = append(told, "its name was an alias of the skill "+other)
		}
		k.Aliases = slices.DeleteFunc(slices.Clone(k.Aliases), func(alias string) bool {
			other, taken := held[alias]
			if taken {
				told = append(told, "the alias "+alias+" stays with the skill "+other)
			}
			return taken
		})
		k.Diagnostics = told
	}
}

// Find returns a skill by its name or, if no skill has that name, by an alias. If two skills have the same alias,
// the later one is returned.
func (s Set) Find(name string) (Skill, bool) {
	if i, known := s.at[name]; known {
		return s.Skills[i], true
	}
	for _, k := range slices.Backward(s.Skills) {
		if slices.Contains(k.Aliases, name) {
			return k, true
		}
	}
	return Skill{}, false
}
