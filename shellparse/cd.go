package shellparse

import (
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// These are the ways in which a shell changes its directory.

// doCd follows cd, pushd and popd. A cd that bash refuses leaves the shell where it is.
func doCd(a *act) {
	sc := a.sc
	opts := a.cdWords()
	if a.Name == "popd" || a.Name == "pushd" && (len(opts.operands) == 0 || opts.stack) || opts.unknown {
		if opts.unknown {
			a.w.entered = append(a.w.entered, workdir{})
		}
		a.w.back = true
		sc.nowhere()
		return
	}
	target := program.Word{Known: true}
	switch {
	case len(opts.operands) == 0:
		home, ok := a.valueOf("HOME")
		if !ok || len(home.words) != 1 {
			a.w.entered = append(a.w.entered, workdir{})
			sc.nowhere()
			return
		}
		target = home.words[0]
	case opts.operands[0].Is("-"):
		if old, ok := a.valueOf("OLDPWD"); ok && len(old.words) == 1 {
			target = old.words[0]
		} else {
			target.Known = false
		}
	default:
		target = opts.operands[0]
	}
	a.File(target, Read, false)
	if _, ok := sc.vars.get("CDPATH"); ok || a.sets("CDPATH") {
		target.Known = false
	}
	before := sc.dirs
	sc.dirs = a.walked(before, target, opts.physical)
	sc.physical = sc.physical || opts.physical
	a.w.entered = append(a.w.entered, sc.dirs...)
	sc.forgetPlace()
	if len(sc.dirs) == 1 && sc.dirs[0].path != "" {
		sc.set("PWD", value{words: []program.Word{program.Literal(sc.dirs[0].path, target.At)}})
	}
	if len(before) == 1 && before[0].path != "" {
		sc.set("OLDPWD", value{words: []program.Word{program.Literal(before[0].path, target.At)}})
	}
	if !opts.refused && surelyThere(target.Text) || sc.errexit && a.w.conds == 0 {
		return
	}
	for _, d := range before {
		if d.missing == "" && len(sc.dirs) == 1 && !opts.refused {
			d.missing = sc.dirs[0].path
			if n := len(a.w.missing); n == 0 || a.w.missing[n-1] != d.missing {
				a.w.missing = append(a.w.missing, d.missing)
			}
		}
		sc.failed = append(sc.failed, d)
	}
}

// cdWords are the options of cd and pushd, and what follows them.
type cdWords struct {
	operands []program.Word
	physical bool // -P
	stack    bool // pushd -n, +1 or -1
	refused  bool // a shell refuses the words, and stays where it is
	unknown  bool // an option that is only known when it runs
}

func (a *act) cdWords() cdWords {
	var c cdWords
	known := "LPe"
	if a.w.posix {
		known = "LP"
	}
	args := a.Argv[1:]
	for i, f := range args {
		option := strings.HasPrefix(f.Text, "-") && f.Text != "-"
		if !f.Known && strings.HasPrefix(f.Skeleton, "-") || f.Glob && option {
			c.unknown = true
			return c
		}
		if a.Name != "cd" && (option || strings.HasPrefix(f.Text, "+")) && !f.Is("--") {
			c.stack = true
			return c
		}
		if !option {
			c.operands = args[i:]
			break
		}
		if f.Text == "--" {
			c.operands = args[i+1:]
			break
		}
		c.physical = c.physical || strings.Contains(f.Text, "P")
		c.refused = c.refused || strings.Trim(f.Text[1:], known) != ""
	}
	c.refused = c.refused || len(c.operands) > 1 // dash takes the first one
	return c
}

// sets reports whether an assignment before the command sets a variable.
func (a *act) sets(name string) bool {
	return slices.ContainsFunc(a.call.env, func(e assignment) bool { return e.name == name })
}

// valueOf returns what is known of a variable, which an assignment before the command may set.
func (a *act) valueOf(name string) (v value, ok bool) {
	v, ok = a.sc.vars.get(name)
	for _, e := range a.call.env {
		if e.name == name {
			v, ok = e.value, e.known
		}
	}
	return v, ok
}

// walked returns where cd leads. The shell takes the names before ".." away from the path by which it came, unless it
// has -P; the kernel would follow a link first.
func (a *act) walked(from []workdir, to program.Word, physical bool) []workdir {
	out := moveTo(from, to)
	if physical {
		return out
	}
	logical := slices.Clone(out)
	for i, d := range logical {
		logical[i].path = withoutDots(d.path, a.w.opts.Dir)
	}
	if a.sc.physical {
		return union(logical, out)
	}
	return logical
}

// withoutDots removes ".." and the name before it from a path, but no name of start: there the shell may have come
// by a link, and then it does not know its name.
func withoutDots(dir, start string) string {
	if !strings.Contains(dir, "..") {
		return dir
	}
	rest, below := dir, false
	if start != "" && start != "/" {
		if after, ok := strings.CutPrefix(dir, strings.TrimSuffix(start, "/")+"/"); ok {
			rest, below = after, true
		}
	}
	if !below {
		return path.Clean(dir)
	}
	if rest = path.Clean(rest); rest == "." {
		return start
	}
	return strings.TrimSuffix(start, "/") + "/" + rest
}

// surelyThere names directories that always exist, so that cd does not fail.
func surelyThere(dir string) bool {
	switch dir {
	case "/", ".", "..", "../..", "/tmp", "/etc", "/usr", "/home":
		return true
	}
	return false
}

// takenAway drops the condition that a directory is missing, where the text itself may take the directory away.
func (w *walker) takenAway() {
	if len(w.missing) == 0 {
		return
	}
	var takers []*Command
	for i := range w.out.Commands {
		if c := &w.out.Commands[i]; len(c.taken()) > 0 {
			takers = append(takers, c)
		}
	}
	few := len(w.missing)*len(takers) < 10_000 // of more, any may be taken away
	w.missing = slices.DeleteFunc(w.missing, func(dir string) bool {
		return few && !slices.ContainsFunc(takers, func(c *Command) bool { return c.takesAway(dir) })
	})
	if len(w.missing) == 0 {
		return
	}
	drop := func(files []File) {
		for i := range files {
			if slices.Contains(w.missing, files[i].OnlyIfMissing) {
				files[i].OnlyIfMissing = ""
			}
		}
	}
	drop(w.out.Files)
	for i := range w.out.Commands {
		c := &w.out.Commands[i]
		drop(c.Files)
		drop(c.Code)
		if c.Effects == nil {
			continue
		}
		one := func(f *File) {
			if slices.Contains(w.missing, f.OnlyIfMissing) {
				f.OnlyIfMissing = ""
			}
		}
		e := c.Effects
		for i := range e.Deletes {
			one(&e.Deletes[i].File)
		}
		for i := range e.Replaces {
			one(&e.Replaces[i].To)
			drop(e.Replaces[i].From)
		}
		for i := range e.Discards {
			drop(e.Discards[i].Only)
		}
		for i := range e.Feeds {
			one(&e.Feeds[i].File)
		}
		for i := range e.Unpacks {
			one(&e.Unpacks[i].Archive)
			one(&e.Unpacks[i].Dir)
		}
	}
}

// taken are the files that a command takes away, or the right to enter them.
func (c *Command) taken() (files []File) {
	switch c.Name {
	case "rmdir", "chmod", "chown", "chgrp", "setfacl", "ln", "mount", "umount":
		for _, f := range c.Files {
			if f.Access == Write {
				files = append(files, f)
			}
		}
	}
	if c.Effects != nil {
		for _, d := range c.Effects.Deletes {
			files = append(files, d.File)
		}
	}
	return files
}

// takesAway reports whether a command may take a directory away, or one above it.
func (c *Command) takesAway(dir string) bool {
	dir = path.Clean(dir)
	return slices.ContainsFunc(c.taken(), func(f File) bool {
		if !f.Known {
			return true
		}
		pattern := path.Clean(f.Path)
		for p := dir; len(p) > 1; p = path.Dir(p) {
			same := pattern == p
			if f.Glob {
				m, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), p)
				same = m || err != nil
			}
			if same {
				return true
			}
		}
		return false
	})
}
