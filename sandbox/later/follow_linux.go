package later

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
)

// lookFound says what is at a path, and watches it if it is a file: its directory says
// nothing of its content, and of a removal.
func (t *tree) lookFound(path string, k kind, pins int) (found, bool) {
	var st, above unix.Stat_t
	if unix.Lstat(path, &st) != nil || unix.Lstat(filepath.Dir(path), &above) != nil {
		return found{}, false
	}
	f := found{
		kind: k, dev: st.Dev, inode: st.Ino, birth: birth(path), dir: fileID{above.Dev, above.Ino}, pins: pins,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		f.directory = true
		if k == gitRead { // git reads a file there
			f.kind, k = reached, reached
		}
	case unix.S_IFLNK:
		f.link, _ = os.Readlink(path)
		if f.link == "" {
			f.link = "?" // it has just been replaced, which will be heard of
		}
	default:
		f.several = st.Nlink > 1
	}
	delete(t.died, f.id()) // the number was given again
	if k == gitPointer {
		_, f.own = t.own[f.id()]
	}
	f.runs = runsOf(path, f)
	if f.several || f.own || k == gitRead {
		f.change = st.Ctim.Nano()
	}
	if k != named {
		// If a directory above were moved, a repository would not be found any more, and a link
		// would lead nowhere. A file that counts by its name counts in any directory.
		f.pins = strings.Count(path, "/") - strings.Count(strings.TrimSuffix(t.root, "/"), "/") - 1
	}
	if !f.directory || k != named {
		t.watchFile(path) // a directory of that name is scanned, and watched so
	}
	return f, true
}

// runsOf returns what git would run because of a file of [gitRead] or a pointer.
func runsOf(path string, f found) string {
	switch f.kind {
	case gitRead:
		return gitRuns(path)
	case gitPointer:
		if _, known := pointed(path, f); !known {
			return unreadableFile
		}
	}
	return ""
}

// birth returns when a file was made, in nanoseconds, or 0 where the file system does not say.
func birth(path string) int64 {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}

// watchFile watches a file that is found.
func (t *tree) watchFile(path string) {
	wd := t.watcher.file(path)
	if wd == unwatched {
		return
	}
	paths := t.files[wd]
	if paths != nil || t.dirs[wd] != nil {
		t.watcher.gone() // the kernel has one watch for both
	}
	for _, p := range paths {
		if p == path {
			return
		}
	}
	t.files[wd] = append(paths, path)
}

// maxFollowed bounds what is followed: a configuration can name any number of files.
const maxFollowed = 4096

// follow looks at what found files lead to within the tree: the targets of links, the
// directories that git's pointers name, and the hooks and files that its configurations
// name. It also looks at paths that do not exist yet.
func (t *tree) follow() {
	t.followed, t.heeded, t.heavy, t.left.followed = map[string]found{}, map[string]bool{}, 0, 0
	type step struct {
		path string
		f    found
	}
	var steps []step
	for p, f := range t.found {
		// Of these the links on the way decide as well, and a link that changes is no event of the file.
		if f.kind == gitRead && filepath.Base(p) == "commondir" || f.kind == gitPointer && f.link != "" {
			t.size -= len(f.runs)
			f.runs = runsOf(p, f)
			t.size += len(f.runs)
			t.found[p] = f
		}
		steps = append(steps, step{p, f})
	}
	one := func(path string, k kind) {
		if !t.heedWithin(path) {
			return
		}
		old := t.found[path]
		if more := t.followed[path]; more.kind > old.kind {
			old = more
		}
		if old.kind >= k && old.kind != unreadable {
			return
		}
		if len(t.followed) >= maxFollowed {
			t.left.followed++
			return
		}
		if f, ok := t.lookFound(path, k, old.pins); ok {
			t.followed[path] = f
			steps = append(steps, step{path, f})
		}
	}
	reach := func(path string, k kind) string {
		to, links := resolve(path)
		for _, l := range links {
			one(l, reached)
		}
		switch {
		case to == "":
		case k == 0: // only where it is counts
			t.heedWithin(to)
		case to == filepath.Clean(path) || !guard.Within(filepath.Clean(path), to):
			// A link to what it lies in would keep the whole tree.
			one(to, k)
		}
		return to
	}
	names := naming{tree: t, reach: reach, seen: map[use]bool{}, texts: map[string][]gitEntry{}}
	for dir := range t.bare {
		for _, name := range bareNames {
			one(dir+"/"+name, gitMark)
		}
		t.reachGit(dir, reach)
	}
	for i := 0; i < len(steps); i++ {
		path, f := steps[i].path, steps[i].f
		if f.kind == gitKeep && !f.directory {
			dir := filepath.Dir(path)
			names.add(path, dir) // without a worktree, or in the place of one
			names.add(path, filepath.Dir(dir))
			names.follow()
		}
		switch {
		case f.kind == gitPointer:
			t.followPointer(path, f, reach, &names)
		case f.kind == gitMark:
		case f.kind == unreadable: // git finds its files there by their names
			t.reachNames(path, reach)
			t.reachNames(path+"/.git", reach)
		case f.link != "":
			reach(path, followedKind(f.kind))
		case f.kind == gitRead && filepath.Base(path) == "commondir":
			t.reachGit(reach(commonDir(path), 0), reach)
		case f.directory && (f.kind == reached || f.kind == gitKeep):
			for _, l := range t.linksBelow(path) {
				reach(l, reached)
			}
		}
	}
}

// followPointer follows a .git that is no directory.
func (t *tree) followPointer(path string, f found, reach func(string, kind) string, names *naming) {
	if f.link != "" {
		if to, _ := resolve(path); !isDir(to) {
			reach(path, gitPointer)
		}
	}
	to, _ := pointed(path, f)
	dir := reach(to, 0)
	t.reachGit(dir, reach)
	if dir == "" {
		return
	}
	// What the configurations name is meant from where the pointer lies.
	dirs := []string{dir}
	if common, _ := resolve(commonDir(dir + "/commondir")); common != "" {
		dirs = append(dirs, common)
	}
	for _, d := range dirs {
		names.add(d+"/config", filepath.Dir(path))
		names.add(d+"/config.worktree", filepath.Dir(path))
	}
	names.follow()
}

// followedKind returns the kind of what a link of some kind leads to.
func followedKind(k kind) kind {
	switch k {
	case gitKeep, gitRead:
		return k
	}
	return reached
}

// linksBelow returns the links in a directory that is reached, at any depth, because their
// targets count too. From then on the watcher reports new ones.
func (t *tree) linksBelow(dir string) []string {
	var out []string
	dirs := []string{dir}
	for room := maxFollowed; len(dirs) > 0; dirs = dirs[1:] {
		t.heedAll(dirs[0])
		entries, _ := os.ReadDir(dirs[0])
		if room -= len(entries); room < 0 {
			t.left.followed++
			return out
		}
		for _, e := range entries {
			path := filepath.Join(dirs[0], e.Name())
			if e.Type()&os.ModeSymlink != 0 {
				out = append(out, path)
			} else if e.IsDir() {
				dirs = append(dirs, path)
			}
		}
	}
	return out
}

// heedAll heeds a directory and everything that is made in it.
func (t *tree) heedAll(dir string) {
	t.heed(dir + "/.")
	t.heeded[dir] = true
}

// heedWithin heeds a path if it lies below the root.
func (t *tree) heedWithin(path string) bool {
	below := path != t.root && guard.Within(path, t.root)
	if below {
		t.heed(path)
	}
	return below
}

// heed remembers that changes of a path matter, and watches it and the directories above it.
// heeded is true for the path itself.
func (t *tree) heed(path string) {
	if t.heavy += 200 + len(path); t.heavy > t.index.limits.heeded {
		t.left.followed++
		return
	}
	at, dirPath := t.top, t.root
	rel := strings.TrimPrefix(path[len(strings.TrimSuffix(t.root, "/")):], "/")
	for {
		seg, rest, deeper := strings.Cut(rel, "/")
		dirPath = strings.TrimSuffix(dirPath, "/") + "/" + seg
		t.heeded[dirPath] = t.heeded[dirPath] || !deeper
		if !deeper {
			return
		}
		rel = rest
		next := at.kids[seg]
		if next == nil {
			if next = t.step(at, seg, dirPath); next == nil {
				t.heeded[path] = true // it may come to exist with its directory
				return
			}
		}
		at = next
	}
}

// step watches a directory that is not scanned.
func (t *tree) step(above *dir, name, path string) *dir {
	if t.count >= t.index.limits.dirs {
		t.left.followed++
		return nil
	}
	fd, err := openDir(path)
	if err != nil {
		t.watcher.stamp(path)
		return nil
	}
	defer unix.Close(fd)
	d := &dir{parent: above, name: name, place: place{kind: notScanned}, watch: unwatched}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		d.inode = st.Ino
	}
	if above.kids == nil {
		above.kids = map[string]*dir{}
	}
	above.kids[name] = d
	t.count++
	t.watchDir(d, fd, path)
	return d
}

// resolve returns where a path leads, and the links on the way. The last names need not
// exist. It is "" for a path that leads nowhere.
func resolve(path string) (to string, links []string) {
	if path == "" {
		return "", nil
	}
	rest := strings.Split(path, "/")
	for len(rest) > 0 {
		seg := rest[0]
		rest = rest[1:]
		switch seg {
		case "", ".":
			continue
		case "..":
			to = to[:max(strings.LastIndexByte(to, '/'), 0)]
			continue
		}
		to += "/" + seg
		target, err := os.Readlink(to)
		if err != nil {
			continue
		}
		if links = append(links, to); len(links) > 40 {
			return "", links
		}
		to = to[:strings.LastIndexByte(to, '/')]
		if strings.HasPrefix(target, "/") {
			to = ""
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return to, links
}

// reachGit follows a directory that is a git directory though its name does not say so. Of
// other files in it nothing is known: it may be any directory.
func (t *tree) reachGit(dir string, reach func(string, kind) string) {
	if dir == "" || !guard.Within(dir, t.root) || inGitDir(dir, t.root) {
		return
	}
	t.reachNames(dir, reach)
}

// reachNames follows the files of a git directory that git finds by their names.
func (t *tree) reachNames(dir string, reach func(string, kind) string) {
	for _, name := range []string{"config", "config.worktree", "hooks"} {
		reach(filepath.Join(dir, name), gitKeep)
	}
	dirs, trees := []string{dir}, filepath.Join(dir, "worktrees")
	t.heedAll(trees)
	if entries, err := os.ReadDir(trees); err == nil {
		for _, e := range entries[:min(len(entries), maxFollowed)] {
			dirs = append(dirs, filepath.Join(trees, e.Name()))
			reach(filepath.Join(dirs[len(dirs)-1], "config.worktree"), gitKeep)
		}
	}
	for _, d := range dirs {
		for _, name := range []string{
			"commondir", "rebase-merge/git-rebase-todo", "rebase-merge/strategy", "sequencer/opts",
		} {
			reach(filepath.Join(d, name), gitRead)
		}
	}
}

// inGitDir reports whether a directory is part of a .git directory below the root, which is
// scanned as such.
func inGitDir(dir, root string) bool {
	for seg := range strings.SplitSeq(strings.TrimPrefix(dir, root), "/") {
		if strings.EqualFold(seg, ".git") {
			return true
		}
	}
	return false
}
