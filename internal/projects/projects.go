// Package projects keeps the directories in which a person lets agents work.
//
// A session starts in a workspace of the configuration, or in a project: a directory that a person
// allowed. The roots of the configuration are one workspace, and its sessions may write all of
// them. A project is a workspace of its own: a session there may write it, and no project beside it.
// Of two projects, one may lie in the other; a session in the outer one may write the inner one too.
//
//	list, err := projects.Open("/var/lib/sandboxd/projects.json")
//	list.Use(projects.Rules{Base: roots, Project: settingsOf}) // without Use, nothing is allowed
//	answer, err := list.Allow("/home/me/repo", "uid:1000", record)
//	w, err := list.Of("/home/me/repo/sub") // its roots and settings
//
// Call Use again at every reload. Of compares paths as text: its caller must resolve links first.
// Allow and Remove do that themselves.
//
// Guarantees:
//   - Of returns an error for a directory that nobody allowed, for a project that is gone
//     (removed, moved, or now a link or a file), and for one that the rules in force refuse.
//     Another directory in the same place counts as the project.
//   - A change is recorded first, then written to the disk, then put in force. If a step fails, the
//     change is not in force before the next start.
//
// Refusals have a code (errors.go). After an error of Of no session starts and no call runs there. A
// list that cannot be read is projects_damaged: Open fails, and so does the start of the daemon.
//
// Its routes are for operators; the socket of a request says who is one. The functions ask nobody.
// Routes call [Changes], which the daemon implements, because calls and rules must follow a change.
// What no project may be because of the host is in [Host.Check], with a case in host_test.go; because
// of the configuration, in the method Project of config.Config.
package projects

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Project is a directory that a person allowed.
type Project struct {
	Dir     string    `json:"dir"` // physical
	Allowed time.Time `json:"allowed_at"`
	By      string    `json:"by"`
}

// Status is a project, and why it cannot be used where that is so.
type Status struct {
	Project
	Problem string `json:"problem,omitempty"`
}

// Rules are what the configuration in force says of directories.
type Rules struct {
	Base tool.Workspace // of the configuration; without roots there are projects alone
	// Project returns the settings of sessions in a directory, or why agents may not work in
	// it. The directory is physical. Nil rules out every directory.
	Project func(dir string) (guard.Settings, error)
}

// List is the projects of one daemon. It is safe for concurrent use.
type List struct {
	file string // "": of a list that nobody changes ([Fixed])
	mu   sync.Mutex
	now  atomic.Pointer[state] // replaced by whoever holds mu
}

// state does not change.
type state struct {
	rules   Rules
	entries []entry  // by directory
	dirs    []string // the roots of the rules, and the projects that the rules allow
}

type entry struct {
	Project
	workspace tool.Workspace
	wrong     error // why the rules say no
}

// Open reads the list in a file, which need not exist. Nothing is allowed before Use.
func Open(file string) (*List, error) {
	kept, err := read(file)
	if err != nil {
		return nil, err
	}
	l := &List{file: file}
	var entries []entry
	for _, p := range kept {
		entries = append(entries, Rules{}.entry(p))
	}
	l.now.Store(newState(Rules{}, entries))
	return l, nil
}

// Fixed returns a list of one workspace that nobody changes.
func Fixed(w tool.Workspace) *List {
	l := &List{}
	l.now.Store(newState(Rules{Base: w}, nil))
	return l
}

// Use puts other rules in force.
func (l *List) Use(r Rules) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var entries []entry
	for _, e := range l.now.Load().entries {
		entries = append(entries, r.entry(e.Project))
	}
	l.now.Store(newState(r, entries))
}

func newState(r Rules, entries []entry) *state {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.Dir, b.Dir) })
	s := &state{rules: r, entries: entries, dirs: slices.Clone(r.Base.Roots)}
	for _, e := range entries {
		if e.wrong == nil {
			s.dirs = append(s.dirs, e.Dir)
		}
	}
	return s
}

// entry returns a project under these rules.
func (r Rules) entry(p Project) entry {
	e := entry{Project: p}
	// One that is gone has no settings, and stays out also if it comes back: until the next
	// reload, or until it is allowed again.
	if e.wrong = stillThere(p.Dir); e.wrong != nil {
		return e
	}
	if r.Project == nil {
		e.wrong = refused("nothing is in force yet", "")
		return e
	}
	settings, err := r.Project(p.Dir)
	if err != nil {
		e.wrong = err
		return e
	}
	e.workspace = tool.Workspace{Roots: []string{p.Dir}, Settings: settings}
	return e
}

// Of returns the workspace of a directory: the roots of the configuration, or the innermost project that holds it.
func (l *List) Of(dir string) (tool.Workspace, error) {
	s := l.now.Load()
	if _, ok := innermost(dir, s.rules.Base.Roots); ok {
		return s.rules.Base, nil
	}
	e, ok := s.of(dir)
	if !ok {
		return tool.Workspace{}, notAllowed(dir)
	}
	if err := e.problem(); err != nil {
		return tool.Workspace{}, err
	}
	return e.workspace, nil
}

// of returns the innermost project that holds a directory.
func (s *state) of(dir string) (found entry, ok bool) {
	for _, e := range s.entries {
		if guard.Within(dir, e.Dir) && len(e.Dir) >= len(found.Dir) {
			found, ok = e, true
		}
	}
	return found, ok
}

// Root returns the root or the project that holds a directory, or that directory.
func (l *List) Root(dir string) string {
	s := l.now.Load()
	if root, ok := innermost(dir, s.rules.Base.Roots); ok {
		return root
	}
	if e, ok := s.of(dir); ok {
		return e.Dir
	}
	return dir
}

func innermost(dir string, roots []string) (found string, ok bool) {
	for _, root := range roots {
		if guard.Within(dir, root) && len(root) >= len(found) {
			found, ok = root, true
		}
	}
	return found, ok
}

// Default returns where a session starts whose client names no directory: the first root of the configuration, or
// the only project.
func (l *List) Default() (string, error) {
	s := l.now.Load()
	switch {
	case len(s.rules.Base.Roots) > 0:
		return s.rules.Base.Roots[0], nil
	case len(s.entries) == 1:
		return s.entries[0].Dir, nil
	case len(s.entries) == 0:
		return "", &tool.Error{
			Code: "cwd_outside_workspace", Msg: "no directory is allowed yet",
			Hint: "a person allows one with: sandboxd allow DIR",
		}
	}
	return "", &tool.Error{
		Code: "validation_error", Msg: fmt.Sprintf("cwd is missing, and there are %d projects", len(s.entries)),
		Hint: "name one; sandboxd allow --list shows them",
	}
}

// Dirs returns the roots of the configuration, and the projects that the rules allow. It is for reading alone.
func (l *List) Dirs() []string { return l.now.Load().dirs }

// All returns the projects as they are now.
func (l *List) All() []Status {
	all := []Status{}
	for _, e := range l.now.Load().entries {
		s := Status{Project: e.Project}
		if err := e.problem(); err != nil {
			s.Problem = err.Error()
		}
		all = append(all, s)
	}
	return all
}

// problem is why a project cannot be used now.
func (e entry) problem() error {
	if said, ok := errors.AsType[*tool.Error](e.wrong); ok && said.Code == codeGone {
		return said
	}
	if e.wrong != nil {
		return unusable(e.Dir, e.wrong)
	}
	return stillThere(e.Dir)
}

// stillThere is the error of a project that is gone: it was removed or moved, or a link is
// in its place.
func stillThere(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return gone(dir, "is not there any more")
	case info.Mode()&os.ModeSymlink != 0:
		return gone(dir, "is a link now")
	case !info.IsDir():
		return gone(dir, "is no directory any more")
	}
	return nil
}

// Answer says what became of a directory.
type Answer struct {
	Dir    string `json:"dir"`    // physical
	In     string `json:"in"`     // the project, or the root of the configuration, that holds it
	Change bool   `json:"change"` // false where it was so before
	Ended  int    `json:"ended"`  // calls that ran there, when it was taken back
}

// Record writes what changes to the record. Its error keeps the change from being made.
type Record func(what string) error

// Allow makes a directory a project. One that lies in a root or in a project is allowed
// already.
func (l *List) Allow(dir, by string, record Record) (Answer, error) {
	real, err := physical(dir)
	if err != nil {
		return Answer{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.now.Load()
	if root, ok := innermost(real, s.rules.Base.Roots); ok {
		return Answer{Dir: real, In: root}, nil
	}
	if e, ok := s.of(real); ok && e.wrong == nil {
		return Answer{Dir: real, In: e.Dir}, e.problem()
	}
	e := s.rules.entry(Project{Dir: real, Allowed: time.Now().UTC().Truncate(time.Second), By: by})
	if e.wrong != nil {
		return Answer{}, e.wrong
	}
	others := slices.DeleteFunc(slices.Clone(s.entries), func(o entry) bool { return o.Dir == real })
	next := newState(s.rules, append(others, e))
	return Answer{Dir: real, In: real, Change: true}, l.change(next, record, by+" allowed "+real)
}

// Remove takes a directory back, also one that is not there any more.
func (l *List) Remove(dir, by string, record Record) (Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.now.Load()
	names := []string{dir}
	if real, err := physical(dir); err == nil {
		names = append(names, real)
	}
	i := slices.IndexFunc(s.entries, func(e entry) bool { return slices.Contains(names, e.Dir) })
	if i < 0 {
		return Answer{}, s.notListed(names[len(names)-1])
	}
	next := newState(s.rules, slices.Delete(slices.Clone(s.entries), i, i+1))
	gone := s.entries[i].Dir
	return Answer{Dir: gone, In: gone, Change: true}, l.change(next, record, by+" took back "+gone)
}

// change records a change, writes it down and puts it in force. The caller holds mu.
func (l *List) change(next *state, record Record, what string) error {
	if err := record(what); err != nil {
		return err
	}
	kept := make([]Project, len(next.entries))
	for i, e := range next.entries {
		kept[i] = e.Project
	}
	if err := write(l.file, kept); err != nil {
		return err
	}
	l.now.Store(next)
	return nil
}
