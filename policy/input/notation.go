package input

import (
	"cmp"
	"path"
	"slices"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// The model can make directories as deep as a path may be. What is enumerated for each path stays bounded.
const (
	maxAbove = 16 // directories below the root of a workspace, counted from there, that rules are relative to
	maxUnder = 64 // segments below one of them that keys of rules have
)

// notations are the directories below which permission rules name paths: as ./x and as ~/x.
//
// The model moves the session: by cd, by EnterWorktree. So an allow counts ./x from where the
// session began alone. A move must not lose a deny or an ask, wherever the session was when a
// person wrote it: they count from each directory in tighten as well.
type notations struct {
	fixed   []notation // for all rules
	tighten []notation // for those that deny or ask
}

type notation struct{ dir, mark string }

// base is the directory in which a session began.
func base(s tool.Session) string { return cmp.Or(s.Begun, s.Dir) }

func notationsOf(c *tool.Call) (n notations) {
	s := c.Session
	n.fixed = places([]notation{{base(s), "."}, {s.Tree, "."}, {s.Home, "~"}})
	all := []string{base(s), s.Tree, s.Dir}
	for _, up := range s.Above { // what a person denies to a session, agents below it must not do
		all = append(all, base(up), up.Tree)
	}
	roots := slices.Concat(c.Workspace.Roots, c.Settings.AllowedWritePaths)
	var more []notation
	for _, dir := range all {
		a := ancestors(dir)
		if a == nil {
			continue
		}
		up := 1
		for up < len(a) && belowAny(a[up], roots) {
			up++
		}
		more = append(more, notation{dir, "."})
		for _, dir := range a[max(1, up-maxAbove):up] {
			more = append(more, notation{dir, "."})
		}
	}
	for _, m := range places(more) {
		if !slices.Contains(n.fixed, m) {
			n.tighten = append(n.tighten, m)
		}
	}
	return n
}

// places leaves out what is no place of its own: below / everything lies.
func places(list []notation) (out []notation) {
	for _, n := range list {
		if n.dir == "" || path.Clean(n.dir) == "/" {
			continue
		}
		if n.dir = path.Clean(n.dir); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

func belowAny(dir string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return guard.Within(dir, path.Clean(root)) })
}

// write fills the notations of a path. It is known by its ancestors; written are those of the path
// as the call has it.
func (n notations) write(p *Path, written []string) {
	p.Forms, p.Under = []string{p.Ancestors[0]}, slices.Clone(p.Ancestors)
	for _, base := range n.fixed {
		base.add(&p.Forms, &p.Under, p.Ancestors, len(p.Ancestors))
	}
	for _, base := range n.tighten {
		base.add(&p.Spelled, &p.SpelledIn, p.Ancestors, maxUnder)
	}
	if written != nil && written[0] != p.Ancestors[0] { // links lead elsewhere
		p.Spelled, p.SpelledIn = append(p.Spelled, written[0]), append(p.SpelledIn, written...)
		for _, base := range slices.Concat(n.fixed, n.tighten) {
			base.add(&p.Spelled, &p.SpelledIn, written, maxUnder)
		}
	} else {
		written = nil
	}
	if !p.Recursive {
		return
	}
	for _, base := range slices.Concat(n.fixed, n.tighten) { // a tree that holds the whole base
		if below := ancestors(base.dir); slices.Contains(below[1:], p.Ancestors[0]) ||
			written != nil && slices.Contains(below[1:], written[0]) {
			addOnce(&p.Spelled, base.mark)
			addOnce(&p.SpelledIn, base.mark)
		}
	}
}

// add adds the notation of a path that lies below the directory, and those of the first most directories between.
func (n notation) add(forms, under *[]string, ancestors []string, most int) {
	i := slices.Index(ancestors, n.dir)
	if i < 0 {
		return
	}
	form := n.mark + ancestors[0][len(n.dir):]
	addOnce(forms, form)
	for j := max(0, i-most); j <= i; j++ {
		addOnce(under, form[:len(n.mark)+len(ancestors[j])-len(n.dir)]) // a part: no copy
	}
}

func addOnce(list *[]string, s string) {
	if !slices.Contains(*list, s) {
		*list = append(*list, s)
	}
}

// In reports whether the session works in a directory, or began there.
func (in *Document) In(dir string) bool {
	return Below(in.Session.Dir, dir) || Below(in.Session.Base, dir)
}
