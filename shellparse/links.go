package shellparse

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// link is a link that the line makes. Paths that go through it mean what it leads to.
type link struct {
	path, to string // absolute; to is "" if it is not known
	from     int    // the first command that may go through it
	hard     bool   // who removes it removes nothing else
}

const (
	maxLinks   = 256 // links that one text may make
	maxThrough = 64  // other paths that one path may mean by them
)

// pairs returns for ln, cp, mv and install what each operand becomes: the path of the new name, which may be one in a
// directory.
func (a *act) pairs() (pairs []struct{ from, to program.Word }) {
	from, to := a.Operands, a.Values["-t"]
	inDir := len(to) > 0
	switch n := len(from); {
	case inDir:
	case n == 1 && a.Name == "ln":
		to, inDir = []program.Word{program.Literal(".", a.At)}, true
	case n > 1:
		from, to, inDir = from[:n-1], from[n-1:], n > 2
	default:
		return nil
	}
	for _, f := range from {
		for _, t := range to {
			if !inDir && !isDir(t.Text) {
				pairs = append(pairs, struct{ from, to program.Word }{f, t})
			}
			if t.Lit() != "" && f.Lit() != "" {
				pairs = append(pairs, struct{ from, to program.Word }{f, t.Sub(t.Text + "/" + path.Base(f.Text))})
			}
		}
	}
	return pairs
}

// isDir reports whether a path can only be that of a directory.
func isDir(p string) bool {
	return p == "/" || strings.HasSuffix(p, "/") || path.Base(p) == "." || path.Base(p) == ".." || surelyThere(p)
}

// hasOption reports whether one of the words is an option, of one letter or with a long name.
func (a *act) hasOption(letter, long string) bool {
	return slices.ContainsFunc(a.Argv[1:], func(f program.Word) bool {
		name, isLong := strings.CutPrefix(f.Text, "--")
		if isLong {
			return len(name) > 1 && strings.HasPrefix(long, name)
		}
		letters, _, _ := strings.Cut(strings.TrimRight(f.Text, "0123456789"), "S")
		return strings.HasPrefix(letters, "-") && strings.Contains(letters, letter)
	})
}

// links remembers the links that the command makes, moves or copies.
func (a *act) links() {
	w := a.w
	makes := a.Name == "ln" || a.Name == "cp" && (a.hasOption("s", "symbolic-link") || a.hasOption("l", "link"))
	if !makes && len(w.links) == 0 {
		return
	}
	hard := !a.hasOption("s", "symbolic-link")
	soft := a.Name == "ln" && !hard && !a.hasOption("r", "relative")
	for _, pair := range a.pairs() {
		from := w.file(pair.from, Read, false, a.sc)
		for i, to := range w.file(pair.to, Write, false, a.sc) {
			target := ""
			if len(from) > 0 && from[min(i, len(from)-1)].Known && !from[0].Glob {
				target = from[min(i, len(from)-1)].Path
			}
			if !to.Known || to.Glob {
				continue
			}
			name := path.Clean(to.Path)
			if dir := a.sc.dir(); dir == name || strings.HasPrefix(dir, name+"/") {
				continue // it is there, and a directory
			}
			if soft && target != "" && !strings.HasPrefix(pair.from.Text, "/") {
				target = path.Dir(name) + "/" + pair.from.Text
			}
			if makes {
				a.addLink(link{path: name, to: target, hard: hard})
				continue
			}
			for _, l := range slices.Clone(w.links) { // what is moved or copied may be a link, or have some in it
				rest, below := strings.CutPrefix(l.path, path.Clean(target))
				if target != "" && below && (rest == "" || rest[0] == '/') {
					a.addLink(link{path: name + rest, to: l.to, hard: l.hard})
				}
			}
		}
	}
}

func (a *act) addLink(l link) {
	w := a.w
	if l.path == l.to {
		return
	}
	if len(w.links) == maxLinks {
		w.fail(&Error{
			Code: "too_large", Msg: "command makes too many links", Hint: "split the command", At: a.At,
		})
	}
	if w.rounds+w.beside+len(w.calls) == 0 { // else what stands before it may run after it
		l.from = len(w.out.Commands)
	}
	w.links = append(w.links, l)
}

// through returns where a path leads by links that the line has made when command n runs; "" is anywhere, also where it
// leads to more than maxThrough. With follow a link at its end is followed too.
func (w *walker) through(p string, glob bool, n int, follow bool) (out []string) {
	todo := []string{p}
	for len(todo) > 0 {
		at, segments := "", strings.Split(todo[0], "/")
		todo = todo[1:]
		for i, segment := range segments {
			switch segment {
			case "", ".":
				continue
			case "..":
				at = strings.TrimSuffix(path.Dir(at), "/")
				continue
			}
			at += "/" + segment
			if i+1 == len(segments) && !follow {
				continue
			}
			for _, l := range w.links {
				name, to := l.path, l.to
				if glob {
					name, to = program.EscapePattern(name), program.EscapePattern(to)
				}
				same := at == name
				if !same && glob {
					same, _ = path.Match(strings.ReplaceAll(at, "[!", "[^"), l.path)
				}
				if !same || l.from > n || l.hard && !follow {
					continue
				}
				if to != "" && i+1 < len(segments) {
					to += "/" + strings.Join(segments[i+1:], "/")
				}
				if len(out) == maxThrough {
					return append(out, "")
				}
				if !slices.Contains(out, to) {
					out = append(out, to)
					todo = append(todo, to)
				}
			}
		}
	}
	return out
}

// alsoThrough adds to files those to which links of the line lead.
func (w *walker) alsoThrough(files []File, n int, follow bool) []File {
	out := slices.Clip(files)
	for _, f := range files {
		out = append(out, w.meant(f, n, follow)...)
	}
	return out
}

// meant returns the files that one may be by links of the line.
func (w *walker) meant(f File, n int, follow bool) (out []File) {
	if !f.Known || !strings.HasPrefix(f.Path, "/") {
		return nil
	}
	for _, p := range w.through(f.Path, f.Glob, n, follow) {
		g := f
		if g.Path = p; p == "" {
			g.Path, g.Known, g.Glob = f.Path, false, false
		}
		out = append(out, g)
	}
	return out
}

// ofLinks are programs that work on the link itself.
var ofLinks = []string{"rm", "unlink", "rmdir", "mv", "ln", "git", "readlink"}

// throughLinks says of all commands which files they mean by links that the line makes.
func (w *walker) throughLinks() {
	if len(w.links) == 0 {
		return
	}
	if slices.ContainsFunc(w.out.Commands, func(c Command) bool { return c.Name == "trap" }) {
		for i := range w.links {
			w.links[i].from = 0 // its text runs later
		}
	}
	w.out.Files = w.alsoThrough(w.out.Files, len(w.out.Commands), true)
	for n := range w.out.Commands {
		c := &w.out.Commands[n]
		follow := !slices.Contains(ofLinks, c.Name)
		redirected := slices.ContainsFunc(c.Files, func(f File) bool { return f.First })
		if len(w.through(c.Dir, false, n, true)) > 0 {
			c.Dir = ""
		}
		c.Files, c.Code = w.alsoThrough(c.Files, n, follow || redirected), w.alsoThrough(c.Code, n, true)
		e := c.Effects
		if e == nil {
			continue
		}
		for _, d := range slices.Clone(e.Deletes) {
			for _, f := range w.meant(d.File, n, follow) {
				d.File = f
				e.Deletes = append(e.Deletes, d)
			}
		}
		for _, r := range slices.Clone(e.Replaces) {
			for _, f := range w.meant(r.To, n, follow) {
				r.To = f
				e.Replaces = append(e.Replaces, r)
			}
		}
		for _, u := range slices.Clone(e.Unpacks) {
			for _, f := range w.meant(u.Dir, n, true) {
				u.Dir = f
				e.Unpacks = append(e.Unpacks, u)
			}
		}
	}
}

// renames gives a file what is known of the one that it is made from.
func (a *act) renames() {
	w := a.w
	if len(w.written)+len(w.made) == 0 {
		return
	}
	if a.Name == "ln" && len(a.Operands) == 2 {
		from, to := w.file(a.Operands[0], Read, false, a.sc), w.file(a.Operands[1], Write, false, a.sc)
		for i := range min(len(from), len(to)) {
			w.named(path.Clean(from[i].Path), path.Clean(to[i].Path))
		}
		return
	}
	if n := len(a.Operands); a.Name == "rsync" && n > 1 {
		for _, to := range w.file(a.Operands[n-1], Write, false, a.sc) {
			for _, from := range a.Operands[:n-1] {
				for _, f := range w.file(from, Read, false, a.sc) {
					w.named(path.Clean(f.Path), path.Clean(to.Path))
					w.named(path.Clean(f.Path), path.Join(to.Path, path.Base(f.Path)))
				}
			}
		}
	}
	if a.cmd.Effects == nil {
		return
	}
	for _, d := range a.cmd.Effects.Deletes {
		if d.Moved != "" {
			w.named(d.key(), path.Clean(d.Moved))
		}
	}
	for _, r := range a.cmd.Effects.Replaces {
		to := []string{path.Clean(r.To.Path)}
		for _, name := range r.Names {
			to = append(to, path.Join(r.To.Path, name))
		}
		for _, f := range r.From {
			from := path.Clean(f.Path)
			for _, p := range to {
				w.named(from, p)
			}
		}
	}
}

// named says that a file or a tree is another one, or a copy of it. What a pattern means is in the other one.
func (w *walker) named(from, to string) {
	if from == to {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(w.written)) {
		for _, name := range renamed(key, from, to) {
			w.written[name] = w.written[key]
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.made)) {
		w.keepsMade(renamed(key, from, to), w.made[key], true)
	}
}

// renamed returns the names that a file has when from is to.
func renamed(key, from, to string) []string {
	segments := strings.Split(key, "/")
	n := strings.Count(from, "/") + 1
	if n > len(segments) {
		return nil
	}
	begin, rest := strings.Join(segments[:n], "/"), strings.Join(segments[n:], "/")
	if begin == from {
		return []string{path.Join(to, rest)}
	}
	if same, err := path.Match(from, begin); err == nil && same {
		return []string{path.Join(to, path.Base(begin), rest)}
	}
	return nil
}

// remembered returns the keys of a map that may be the file: what a pattern or a tree means, a name in a directory that
// is not known, and what links of the line lead to. A key is a pattern where its writer has made up the names.
func remembered[T any](w *walker, of map[string]T, f File) (keys []string) {
	if len(of) == 0 {
		return nil
	}
	p := f.key()
	if parts := strings.SplitN(p, "/", 5); len(parts) == 5 && parts[1] == "proc" && parts[3] == "cwd" {
		f.Known, p = false, parts[4]
	}
	pattern := strings.ReplaceAll(p, "[!", "[^")
	others := []string{p}
	if len(w.links) > 0 && f.Known && !f.Glob {
		others = append(others, w.through(p, false, len(w.out.Commands), true)...)
	}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		same := slices.Contains(others, key) || !f.Known && strings.HasSuffix(key, "/"+p) ||
			f.Recursive && (p == "/" || strings.HasPrefix(key, p+"/"))
		if !same && f.Glob {
			same, _ = path.Match(pattern, key)
		}
		if !same && strings.HasSuffix(key, "*") {
			same, _ = path.Match(key, p)
		}
		if same {
			keys = append(keys, key)
		}
	}
	return keys
}
