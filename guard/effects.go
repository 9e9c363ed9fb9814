package guard

import (
	"os"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse"
)

// Deletion is a file or tree that a command of the script removes, empties or moves. Its path is the physical one
// that it has now.
type Deletion struct {
	Command int // its place in Script.Commands
	PathUse
	Many  bool     // named by a pattern, a list, a loop or a search
	Names []string // of a tree, only what has such a name; empty: everything
	Moved string   // where it is afterwards, physical; "": nowhere
	// Outside says that the path is unknown only because of variables that the line does not set.
	Outside bool
	Was     string // what lies there now had this path when the line began
	// Tracked says that git tracks a part of it, or that it is a repository. It is also set if the index cannot be
	// read.
	Tracked bool
	// Unsaved says that it is one file, and git has no copy of a part of its content.
	Unsaved bool
}

// Discard is what a command of the script makes git throw away.
type Discard struct {
	Command int
	What    string // one of the constants of package effect
}

// effects adds what a command loses, by the physical paths of now.
func (r *Rules) effects(u *Uses, i int, e *shellparse.Effects, dir string, git *tracker) {
	tree := git.names
	for _, d := range e.Deletes {
		if d.OnlyIfMissing != "" && tree.isDir(d.OnlyIfMissing) {
			continue
		}
		del := Deletion{
			Command: i, PathUse: r.fileUse(d.File, dir, tree), Many: d.Many, Names: d.Names,
			Outside: d.Outside,
		}
		if del.Recursive && del.Path != "" && !d.Glob && !tree.hides(del.Path) {
			if info, err := os.Lstat(del.Path); err == nil && !info.IsDir() {
				del.Recursive = false // it is one file, whatever the option says
			}
		}
		if d.Moved != "" {
			if del.Moved = d.Moved; strings.HasPrefix(d.Moved, "/") {
				if path, err := r.physical(d.Moved, dir, tree); err == nil {
					del.Moved = path
				}
			}
		}
		for _, at := range git.moved {
			before := &u.Deletes[at]
			if to := before.Moved; del.Path != "" && (Within(to, del.Path) || Within(del.Path, to)) {
				if del.Was = before.Path; before.Was != "" {
					del.Was = before.Was
				}
			}
		}
		if del.Moved != "" {
			git.moved = append(git.moved, len(u.Deletes))
		}
		if del.Recursive || del.Many {
			del.Tracked = git.tracks(del.PathUse, del.Names)
		}
		u.Deletes = append(u.Deletes, del)
	}
	for _, d := range e.Discards {
		if d.IfThere != "" && !r.there(d.IfThere, dir, tree) || r.unchanged(u, i, d, dir, git) {
			continue
		}
		u.Discards = append(u.Discards, Discard{i, d.What})
	}
	r.feeds(u, i, e.Feeds, dir, git, map[string]bool{}, nil)
}

// unchanged reports whether git has everything that some files and trees contain, so that checking them out loses
// nothing. What the line itself puts there before is not known.
func (r *Rules) unchanged(u *Uses, i int, d shellparse.Discard, dir string, git *tracker) bool {
	only := d.Only
	puts := func(c shellparse.Command) bool { return c.Name == "" || c.Name == "git" && c.Sub == "stash" }
	if len(only) == 0 || len(git.moved) > 0 || slices.ContainsFunc(u.Script.Commands[:i], puts) {
		return false
	}
	if d.Mixed && (!only[0].Known || !r.there(only[0].Path, dir, git.names)) {
		return false
	}
	for _, f := range only {
		if f.OnlyIfMissing != "" && git.names.isDir(f.OnlyIfMissing) {
			continue
		}
		use := r.fileUse(f, dir, git.names)
		if use.Path == "" || use.Glob || !git.saved(use.Path) {
			return false
		}
	}
	return true
}

// there reports whether a file may exist at a path. In a closed place nobody looks, so one may.
func (r *Rules) there(path, dir string, tree *names) bool {
	physical, err := r.physical(path, dir, tree)
	if err != nil {
		return true
	}
	if _, closed := r.closedPlaces().above(physical); closed {
		return true
	}
	_, err = os.Lstat(physical)
	return err == nil
}

// Act is what a command does to a service by a file of statements that it reads.
type Act struct {
	Command int // its place in Script.Commands
	shellparse.Act
}

const (
	maxFed      = 16      // files of statements that are followed for one command, with included ones
	maxFedBytes = 4 << 20 // bytes of one
)

// feeds reads the files of statements that a command gets. One that is too large to read may destroy anything, and so
// may one more than are read. read are those that were, and within is the file that names these, and what names that.
func (r *Rules) feeds(
	u *Uses, i int, feeds []shellparse.Feed, dir string, git *tracker, read map[string]bool, within []string,
) {
	for _, f := range feeds {
		use := r.fileUse(f.File, dir, git.names)
		if use.Path == "" || use.Glob || slices.Contains(within, use.Path) || git.names.hides(use.Path) {
			continue
		}
		if len(read) == maxFed && !read[use.Path] {
			r.acts(u, i, []shellparse.Act{unread(u.Script.Commands[i].Name, f.Path, "beyond those that are read")})
			return
		}
		read[use.Path] = true
		if info, err := os.Stat(use.Path); err == nil && info.Mode().IsRegular() && info.Size() > maxFedBytes {
			r.acts(u, i, []shellparse.Act{unread(u.Script.Commands[i].Name, f.Path, "that are too long to be read")})
			continue
		}
		text, err := git.read(use.Path, maxFedBytes)
		if err != nil {
			// Nothing lies there, or only a program of the line makes it.
			if f.Destroys {
				r.acts(u, i, []shellparse.Act{unread(u.Script.Commands[i].Name, f.Path, "that are not there yet")})
			}
			continue
		}
		acts, more := f.Of(string(text))
		r.acts(u, i, acts)
		r.feeds(u, i, more, dir, git, read, append(slices.Clip(within), use.Path))
	}
}

// acts adds those that are not in the list yet.
func (r *Rules) acts(u *Uses, i int, acts []shellparse.Act) {
	for _, a := range acts {
		if act := (Act{i, a}); !slices.Contains(u.Acts, act) {
			u.Acts = append(u.Acts, act)
		}
	}
}

func unread(program, path, why string) shellparse.Act {
	return shellparse.Act{Program: program, Verb: "statements " + why, Target: path, Does: shellparse.Destroys}
}
