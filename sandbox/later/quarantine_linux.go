package later

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Created is a file that a call made or changed and that a person's tools would obey.
type Created struct {
	Act     string // what was done, and whether it was moved away
	Layer   string // "denied_path_created" if it was to be moved away, else "protected_path_created"
	Setting string // what would allow it, if anything
}

// maxCreated bounds what is reported of one call.
const maxCreated = 32

// Quarantine compares with the state before a call, which began at since. It moves the files
// that the package doc lists into dir. It returns them and all other new files.
// The new files that stay are kept for the calls that begin from now on.
func (t *Trees) Quarantine(before *State, since time.Time, dir string) []Created {
	now := t.State()
	if now == before {
		return nil
	}
	var out []Created
	for i, snap := range now.snapshots {
		if was := before.snapshots[i]; was != snap {
			c := comparison{tree: t.index.tree(snap.root), before: was, now: snap, since: since, dir: dir}
			c.all()
			out = append(out, c.out...)
		}
	}
	if more := len(out) - maxCreated; more > 0 {
		slices.SortStableFunc(out, func(a, b Created) int { return len(a.Layer) - len(b.Layer) })
		out = append(out[:maxCreated:maxCreated], Created{
			Act: fmt.Sprintf("create %d more files that decide what runs", more), Layer: noted,
		})
	}
	return out
}

// The layers of [Created].
const (
	taken = "denied_path_created"
	noted = "protected_path_created"
)

// comparison is what became of one tree.
type comparison struct {
	tree        *tree
	before, now *snapshot
	since       time.Time
	dir         string // quarantine
	out         []Created

	covered map[fileID]string // files of before that a mount covered, and where they were
	pointer map[string]string // git directories that pointers of now name, and the pointers
}

func (c *comparison) all() {
	c.covered = map[fileID]string{}
	for p, was := range c.before.found {
		// One that has other names can have been changed by those.
		if was.kept() && !was.several {
			c.covered[was.id()] = p
		}
	}
	var paths []string
	for p, f := range c.now.found {
		if c.before.found[p] != f {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	for _, p := range paths {
		c.one(p, c.now.found[p])
	}
	c.lost()
	c.crowd()
}

// one judges a file that is not as it was.
func (c *comparison) one(path string, f found) {
	was, existed := c.before.found[path]
	from := c.covered[f.id()]
	same := existed && was.id() == f.id() && was.link == f.link
	byOther := same && f.several && f.change != was.change // it was changed by another of its names
	// A mount covers what is kept. Where its directory is the same, only somebody outside
	// can have put another file there.
	outside := existed && was.kept() && was.dir == f.dir
	switch f.kind {
	case gitMark:
		return
	case gitPointer:
		if f.runs != "" && !outside && (!existed || was.runs == "") {
			c.take(path, fmt.Sprintf("create %s, which cannot be read", shown(path)))
			return
		}
	case gitRead:
		if more := runsMore(f.runs, was.runs); more != "" {
			c.takeGit(path, fmt.Sprintf("create %s, from which git would run a program outside the sandbox (%s)",
				shown(path), short(more)))
		}
		return
	case gitUnknown:
		if !outside && from == "" {
			c.take(path, fmt.Sprintf("create %s, which is no file of git's", shown(path)))
		}
		return
	case gitKeep:
		if outside || same && !byOther {
			return
		}
		if from == "" && gitFileRuns(path) {
			c.takeGit(path, fmt.Sprintf("create %s, from which git would run a program outside the sandbox",
				shown(path)))
			return
		}
	case inside:
		if !existed {
			return // the directory is told
		}
		if byOther && inGitDir(path, c.now.root) {
			c.take(path, fmt.Sprintf("change %s by another of its names", shown(path)))
			return
		}
	case reached:
		// What a new link leads to is not new; the link is told.
		if _, awaited := c.before.heeded[path]; !existed && !awaited {
			return
		}
	}
	switch {
	case f.kind == gitPointer && !existed:
		c.tree.made(path, f)
		c.note("create " + shown(path))
	case f.own && same && f.change != was.change:
		c.note("change " + shown(path))
	case !existed && from != "":
		c.note(fmt.Sprintf("move %s to %s", shown(from), shown(path)))
	case !existed && f.kind == unreadable:
		c.note(fmt.Sprintf("make %s, in which nobody can see what runs later", shown(path)))
	case !existed:
		c.note("create " + shown(path))
	case byOther:
		c.note(fmt.Sprintf("change %s by another of its names", shown(path)))
	case same:
	case was.link != "": // which no mount covers
		c.take(path, fmt.Sprintf("put another file in the place of %s, a link to %s", shown(path), short(was.link)))
	case was.kept() && !outside && !c.tree.hasDied(was.id()):
		// Its directory was moved away, with the file and the mount on it, and another one
		// put there.
		c.take(path, fmt.Sprintf("put another file in the place of %s", shown(path)))
	default:
		c.note("create " + shown(path))
	}
}

// lost reports the covered files that are nowhere any more: a program cannot remove them,
// but can move a directory above them to where nobody looks.
func (c *comparison) lost() {
	if len(c.covered) == 0 {
		return
	}
	for _, f := range c.now.found {
		delete(c.covered, f.id())
	}
	var paths []string
	for id, p := range c.covered {
		was := c.before.found[p]
		dir, err := idOf(filepath.Dir(p))
		if was.kind != reached && (err != nil || dir != was.dir) && !c.tree.hasDied(id) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	for _, p := range paths {
		c.note(fmt.Sprintf("move away the directory of %s", shown(p)))
	}
}

// crowd reports what nobody has looked at, because there is too much.
func (c *comparison) crowd() {
	was, now := c.before.left, c.now.left
	if now.dirs > was.dirs {
		c.note(fmt.Sprintf("make %d directories more than are looked at in %s", now.dirs-was.dirs, shown(c.now.root)))
	}
	if more := now.files + now.followed - was.files - was.followed; more > 0 {
		c.out = append(c.out, Created{
			Act: fmt.Sprintf("create %d files more that decide what runs than are looked at in %s; they are "+
				"still there", more, shown(c.now.root)),
			Layer: taken,
		})
	}
}

func (c *comparison) note(act string) { c.out = append(c.out, Created{Act: act, Layer: noted}) }

// take moves a file away.
func (c *comparison) take(path, act string) {
	made := Created{
		Act: act + "; it was moved to quarantine", Layer: taken,
		Setting: "a person has to put " + shown(filepath.Base(path)) + " there",
	}
	if err := Move(path, c.dir); err != nil && exists(path) {
		made.Act = fmt.Sprintf("%s; it is still there: %v", act, err)
	}
	c.out = append(c.out, made)
}

// takeGit moves a file of git away. If the file is older than the call, it may be any file
// of a person's, and the call has only made git look there: by a pointer, or by the files
// that make a directory a repository. Then those are moved.
func (c *comparison) takeGit(path, act string) {
	var st unix.Stat_t
	const clockStep = 50 * time.Millisecond // of the clock of file systems
	if inGitDir(path, c.now.root) || unix.Lstat(path, &st) != nil ||
		time.Unix(st.Ctim.Unix()).After(c.since.Add(-clockStep)) {
		c.take(path, act)
		return
	}
	if c.pointer == nil {
		c.pointer = map[string]string{}
		for p, f := range c.now.found {
			if c.before.found[p] == f {
				continue
			}
			to, leads := "", false
			switch f.kind {
			case gitPointer:
				to, _ = pointed(p, f)
				leads = true
			case gitRead:
				to, leads = strings.CutPrefix(f.runs, commonRuns)
			}
			if dir, _ := resolve(to); leads && dir != "" {
				c.pointer[dir] = p
			}
		}
	}
	for dir := filepath.Dir(path); len(dir) > len(c.now.root); dir = filepath.Dir(dir) {
		if p := c.pointer[dir]; p != "" {
			c.take(p, fmt.Sprintf("create %s, by which git would use %s", shown(p), shown(path)))
			return
		}
	}
	head := filepath.Join(filepath.Dir(path), "HEAD")
	if !exists(head) {
		c.take(path, act)
		return
	}
	c.take(head, fmt.Sprintf("create %s, by which git would use %s", shown(head), shown(path)))
}

// short bounds a text that a program wrote.
func short(s string) string {
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return shown(s)
}

func idOf(path string) (fileID, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return fileID{st.Dev, st.Ino}, err
}
