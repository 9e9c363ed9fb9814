package guard

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/shellparse"
)

// Loss is a file whose content a call would destroy, and of which git has no copy.
type Loss struct {
	Use  int    // the index in Uses.Paths of what is written, replaced or deleted
	Path string // the physical path at which the content lies now
}

// maxSources bounds the files from which another one is made. With more, a person is asked about the edit.
const maxSources = 32

// losses finds what the commands of a script destroy, one after the other.
type losses struct {
	rules *Rules
	git   *tracker
	uses  *Uses
	dir   string
	group []string            // what the commands read that are linked to this one
	made  map[string][]string // by a file that the line writes: what its content is made from
}

// mayLose reports whether a script can destroy a file at all. Most scripts only read.
func mayLose(s *shellparse.Script) bool {
	if slices.ContainsFunc(s.Files, destroys) {
		return true
	}
	return slices.ContainsFunc(s.Commands, func(c shellparse.Command) bool {
		return slices.ContainsFunc(c.Files, destroys) ||
			c.Effects != nil && len(c.Effects.Replaces)+len(c.Effects.Deletes)+len(c.Effects.Unpacks) > 0
	})
}

// command adds what the i-th command destroys. paths are those of its files, from known.
func (l *losses) command(i int, c *shellparse.Command, paths []string) {
	if !l.uses.Script.Linked(i) {
		l.group = l.group[:0]
	}
	for i, f := range c.Files {
		if path := paths[i]; path != "" && !f.Guess && f.Access == Read && !f.Recursive {
			l.group = remember(l.group, path)
		}
	}
	for i, f := range c.Files {
		if path := paths[i]; path != "" && destroys(f) && !l.edits(path, f.First, l.group) {
			l.add(path, path)
		}
	}
	if e := c.Effects; e != nil {
		for _, r := range e.Replaces {
			l.replaces(r)
		}
		for _, x := range e.Unpacks {
			l.unpacked(x)
		}
		l.deletions(i)
	}
	for i, f := range c.Files {
		path := paths[i]
		if path == "" || f.Guess || f.Access != Write || len(l.group) == 0 {
			continue
		}
		from := l.made[path]
		for _, f := range l.group {
			from = remember(from, f)
			for _, f := range l.made[f] {
				from = remember(from, f)
			}
		}
		if l.made == nil {
			l.made = map[string][]string{}
		}
		l.made[path] = from
	}
}

// remember adds a file to a list, if it is not in it.
func remember(list []string, file string) []string {
	if len(list) == maxSources || slices.Contains(list, file) {
		return list
	}
	return append(list, file)
}

// loose adds the files that the shell opens without any command.
func (l *losses) loose(files []shellparse.File) {
	for _, f := range files {
		if path := l.known(f); path != "" && destroys(f) {
			l.add(path, path)
		}
	}
}

// destroys reports whether a use of a file leaves nothing of its content.
func destroys(f shellparse.File) bool {
	return f.Access == Write && !f.Keeps && !f.Guess && !f.Recursive
}

// known returns the physical path of a file, or "".
func (l *losses) known(f shellparse.File) string {
	if !f.Known || f.OnlyIfMissing != "" && l.git.names.isDir(f.OnlyIfMissing) {
		return ""
	}
	return l.one(l.rules.fileUse(f, l.dir, l.git.names))
}

// one returns the path of a use of one file, or "". For a pattern it is the one file that matches.
func (l *losses) one(u PathUse) string {
	if !u.Glob || u.Path == "" {
		return u.Path
	}
	found, all := matched(u.Path, l.git.names)
	if len(found) == 0 {
		found = []string{literal(u.Path)}
	}
	if !all || len(found) > 1 {
		return ""
	}
	path, err := l.rules.physical(found[0], "/", l.git.names)
	if err != nil {
		return ""
	}
	return path
}

// maxEntries bounds the names that are compared with a pattern, in all directories to which it leads.
const maxEntries = 1 << 14

// matched returns the names that a pattern matches, and whether these are all, because the search has a bound. If
// nothing matches, the shell keeps the pattern itself as a word.
func matched(pattern string, tree *names) (found []string, all bool) {
	dir, rest := splitGlob(pattern)
	left := maxEntries
	found = []string{dir}
	for seg := range strings.SplitSeq(rest, "/") {
		var next []string
		for _, dir := range found {
			if tree.hides(dir) {
				continue
			}
			if left--; left < 0 {
				return nil, false
			}
			d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err != nil {
				continue
			}
			names, _ := d.Readdirnames(left + 1)
			_ = d.Close()
			if left -= len(names); left < 0 {
				return nil, false
			}
			for _, name := range names {
				hidden := strings.HasPrefix(name, ".") && !strings.HasPrefix(strings.TrimPrefix(seg, `\`), ".")
				if ok, err := filepath.Match(seg, name); !hidden && (ok || err != nil) {
					next = append(next, filepath.Join(dir, name))
				}
			}
		}
		found = next
	}
	return found, true
}

// literal returns the word from which a pattern was made.
func literal(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		}
		b.WriteByte(pattern[i])
	}
	return b.String()
}

// edits reports whether the new content of a file is made from the old one: sort -o f f; jq . f > new && mv new f. A
// file that is emptied first leaves nothing to make the new content from.
func (l *losses) edits(path string, first bool, from []string) bool {
	return slices.ContainsFunc(from, func(f string) bool {
		if f == path {
			return !first
		}
		return slices.Contains(l.made[f], path)
	})
}

func (l *losses) replaces(r shellparse.Replace) {
	to := l.known(r.To)
	if to == "" {
		return
	}
	var from []string
	for _, f := range r.From {
		from = append(from, l.known(f))
	}
	if !l.git.names.isDir(to) {
		at := r.To.Path
		if r.To.Glob {
			if found, _ := matched(l.rules.fileUse(r.To, l.dir, l.git.names).Path, l.git.names); len(found) == 1 {
				at = found[0]
			}
		}
		if l.isLink(at) || l.edits(to, true, from) {
			return
		}
		l.add(to, to)
		return
	}
	for _, name := range r.Names {
		if path := filepath.Join(to, name); !l.edits(path, true, from) {
			l.add(path, to)
		}
	}
}

// deletions adds what the i-th command removes as single files. Trees and lists have rules of their own.
func (l *losses) deletions(i int) {
	for j := len(l.uses.Deletes) - 1; j >= 0 && l.uses.Deletes[j].Command == i; j-- {
		d := &l.uses.Deletes[j]
		if d.Path == "" || d.Glob || d.Recursive || l.isLink(d.Raw) {
			continue
		}
		path := d.Path
		if d.Was != "" {
			path = d.Was
		}
		if d.Unsaved = l.git.unsaved(path); d.Unsaved && d.Moved == "" {
			l.add(path, d.Path)
		}
	}
}

// isLink reports whether a path is a link. To remove it takes nothing but the link.
func (l *losses) isLink(path string) bool {
	if !filepath.IsAbs(path) || l.git.names.hides(path) {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// add notes that a use of a path loses a file.
func (l *losses) add(path, by string) {
	if !l.git.unsaved(path) {
		return
	}
	for i := len(l.uses.Paths) - 1; i >= 0; i-- {
		if u := &l.uses.Paths[i]; u.Op == Write && u.Path == by {
			n := len(l.uses.Losses) // one command may lose it in two ways
			if loss := (Loss{i, path}); !slices.Contains(l.uses.Losses[max(n-maxSources, 0):], loss) {
				l.uses.Losses = append(l.uses.Losses, loss)
			}
			return
		}
	}
	l.uses.Paths = append(l.uses.Paths, PathUse{Raw: by, Path: by, Op: Write})
	l.uses.Losses = append(l.uses.Losses, Loss{len(l.uses.Paths) - 1, path})
}

const (
	maxArchive  = 32 << 20 // bytes of an archive, packed and unpacked
	maxUnpacked = 4096     // names in one
)

var errLong = errors.New("the archive is too long to be read")

// unpacked adds the files that an archive replaces. Nothing is known of an archive that does not exist, or has an
// unknown form. One that is too long, and one of tracked files, counts as replacing everything in the directory that
// has changed.
func (l *losses) unpacked(x shellparse.Unpack) {
	dir := l.known(x.Dir)
	if dir == "" || l.git.names.hides(dir) {
		return
	}
	var names []string
	err := errLong
	if !x.Tracked {
		archive := l.known(x.Archive)
		if archive == "" || l.git.names.hides(archive) {
			return
		}
		var data []byte
		if data, err = l.git.read(archive, maxArchive); err == nil {
			names, err = namesIn(data)
		} else if l.git.holds(archive) && !errors.Is(err, errLong) {
			err = errLong
		}
	}
	if errors.Is(err, errLong) {
		names, x.Strip = append(names, l.git.below(dir)...), 0
	}
	for _, name := range names {
		for range x.Strip {
			_, name, _ = strings.Cut(name, "/")
		}
		if name = path.Clean("/" + name); name != "/" {
			l.add(filepath.Join(dir, name), dir)
		}
	}
}

// below returns the tracked files of a directory that git could not bring back.
func (t *tracker) below(dir string) (names []string) {
	top := t.top(dir, true)
	if top == "" {
		return nil
	}
	below := strings.TrimPrefix(strings.TrimPrefix(dir, top), "/")
	r := t.repository(top)
	for i := range r.indexes {
		list := r.indexes[i].Below(below)
		for _, name := range list[:min(len(list), maxUnpacked)] {
			names = append(names, strings.TrimPrefix(strings.TrimPrefix(name, below), "/"))
		}
	}
	return names
}

// namesIn returns the names of the files in a tar or zip archive.
func namesIn(data []byte) (names []string, err error) {
	if z, err := zip.NewReader(bytes.NewReader(data), int64(len(data))); err == nil {
		for _, f := range z.File {
			if len(names) == maxUnpacked {
				return names, errLong
			}
			names = append(names, f.Name)
		}
		return names, nil
	}
	in := bufio.NewReader(bytes.NewReader(data))
	var plain io.Reader = in
	switch begin, _ := in.Peek(3); {
	case bytes.HasPrefix(begin, []byte{0x1f, 0x8b}):
		if plain, err = gzip.NewReader(in); err != nil {
			return nil, err
		}
	case string(begin) == "BZh":
		plain = bzip2.NewReader(in)
	}
	limited := &io.LimitedReader{R: plain, N: maxArchive}
	for t := tar.NewReader(limited); ; {
		h, err := t.Next()
		switch {
		case limited.N == 0:
			return names, errLong
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil:
			return names, err
		case len(names) == maxUnpacked:
			return names, errLong
		case h.Typeflag != tar.TypeDir:
			names = append(names, h.Name)
		}
	}
}
