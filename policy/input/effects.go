package input

import (
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/shellparse"
)

// effects adds to the i-th command what it would lose, publish or change elsewhere.
func (in *Document) effects(c *Command, i int, u *guard.Uses) {
	// Both are in the order of the commands.
	from, _ := slices.BinarySearchFunc(u.Deletes, i, func(d guard.Deletion, i int) int { return d.Command - i })
	for _, d := range u.Deletes[from:] {
		if d.Command != i {
			break
		}
		c.Deletes = append(c.Deletes, in.deletion(d))
	}
	from, _ = slices.BinarySearchFunc(u.Discards, i, func(d guard.Discard, i int) int { return d.Command - i })
	for _, d := range u.Discards[from:] {
		if d.Command != i {
			break
		}
		if !slices.Contains(c.Discards, d.What) {
			c.Discards = append(c.Discards, d.What)
			in.has("discards")
		}
	}
	e := u.Script.Commands[i].Effects
	if e == nil {
		return
	}
	acts := e.Acts
	from, _ = slices.BinarySearchFunc(u.Acts, i, func(a guard.Act, i int) int { return a.Command - i })
	for _, a := range u.Acts[from:] {
		if a.Command != i {
			break
		}
		acts = append(acts[:len(acts):len(acts)], a.Act)
	}
	for _, a := range acts {
		if a.Does == shellparse.Plants {
			in.plants(Plant{
				Subject: c.ID, Raw: strings.TrimSpace(a.Program + " " + a.Verb), Program: a.Program,
				From: u.Script.Makers()[i],
			})
			continue
		}
		c.Remote = append(c.Remote, Remote(a))
		if a.Does == shellparse.Publishes {
			c.Publishes = append(c.Publishes, strings.TrimSpace(a.Program+" "+a.Verb))
			in.has("publishes")
		} else {
			in.has("remote")
		}
	}
	for _, r := range e.Runs {
		c.RunsText = append(c.RunsText, Run(r))
		in.has("runs_text")
	}
}

func (in *Document) plants(p Plant) {
	in.Plants = append(in.Plants, p)
	in.has("plants")
}

// has notes a kind of effect.
func (in *Document) has(kind string) {
	if !slices.Contains(in.Effects, kind) {
		in.Effects = append(in.Effects, kind)
	}
}

func (in *Document) deletion(d guard.Deletion) Delete {
	f := Delete{
		Raw: d.Raw, Path: d.Path, Tree: d.Recursive, Many: d.Many, Names: d.Names, To: segments(d.Moved),
		Outside: d.Outside, Tracked: d.Tracked, Unsaved: d.Unsaved,
	}
	if d.Path != "" {
		f.Below, f.InWorkspace = in.below(d.Path)
	}
	if d.Was != "" {
		f.Was, _ = in.below(d.Was)
	}
	if d.Moved != "" {
		in.has("moves")
	} else {
		in.has("deletes")
	}
	return f
}

// below returns the segments of a path below the first root that it lies in. A root that is /tmp, /var/tmp or /dev/shm
// does not count: Delete and Loss differ from Path there.
func (in *Document) below(p string) (rest []string, ok bool) {
	for _, root := range in.Settings.WorkspaceRoots {
		root = path.Clean(root)
		if root == "/tmp" || root == "/var/tmp" || root == "/dev/shm" {
			continue // what lies there is temporary
		}
		if tail, found := strings.CutPrefix(p, root); found && (tail == "" || tail[0] == '/' || root == "/") {
			return segments(tail), true
		}
	}
	return nil, false
}
