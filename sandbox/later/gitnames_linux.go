package later

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/lazyregexp"
)

// use is one use of a configuration: the path at which git reads it, and the directory in which
// git runs the programs that it names.
type use struct{ config, dir string }

// naming follows what configurations of git name. What an included one names is meant from
// the worktree of the one that includes it, so a configuration can have several uses.
type naming struct {
	tree  *tree
	reach func(path string, k kind) string
	seen  map[use]bool
	texts map[string][]gitEntry // of configurations, by path
	queue []use
}

// add remembers a use.
func (n *naming) add(config, dir string) {
	u := use{config, dir}
	if n.seen[u] {
		return
	}
	if len(n.seen) >= maxFollowed {
		n.tree.left.followed++
		return
	}
	n.seen[u] = true
	n.queue = append(n.queue, u)
}

// follow follows the names in the configurations of the queue, and in those that they include.
func (n *naming) follow() {
	for len(n.queue) > 0 {
		u := n.queue[0]
		n.queue = n.queue[1:]
		for _, e := range n.entries(u.config) {
			for _, v := range e.values() {
				n.entry(u, e, v)
			}
		}
	}
}

// entries returns what a configuration holds that lies in the tree.
func (n *naming) entries(config string) []gitEntry {
	file, _ := resolve(config)
	if !guard.Within(file, n.tree.root) {
		return nil
	}
	if entries, ok := n.texts[file]; ok {
		return entries
	}
	text, ok := readSmall(file, maxGitConfig)
	if info, err := os.Lstat(file); !ok && err == nil && info.Mode().IsRegular() {
		n.tree.left.followed++
	}
	entries, _ := parseGit(text) // git uses none of what comes after an error
	n.texts[file] = entries
	return entries
}

func (n *naming) entry(u use, e gitEntry, value string) {
	dir := filepath.Dir(u.config)
	switch {
	case e.name == "path" && (e.section == "include" || e.section == "includeif"):
		for _, p := range n.expand(value, dir, dir) {
			n.reach(p, gitKeep)
			n.add(p, u.dir)
		}
	case e.key == "core.worktree":
		if value != "" {
			n.add(u.config, from(dir, value))
		}
	case e.key == "core.hookspath":
		for _, p := range n.expand(value, u.dir, dir) {
			n.reach(p, gitKeep)
		}
	case e.harmless():
	case e.section == "alias" && !strings.HasPrefix(value, "!"): // a command of git
	default:
		for _, w := range programs(value) {
			for _, p := range n.expand(w, u.dir, dir) {
				n.program(p)
			}
		}
	}
}

// program follows the path of a program. A directory is no program, but one may be put in
// its place.
func (n *naming) program(path string) {
	to, _ := resolve(path)
	if isDir(to) {
		n.reach(path, 0)
		return
	}
	n.reach(path, reached)
}

// expand returns the paths that a value can mean. "~" is the home of whoever runs git: the
// owner of the tree, or somebody in whose home the configuration lies.
func (n *naming) expand(value, dir, config string) []string {
	value = strings.TrimPrefix(value, ":(optional)")
	if !strings.HasPrefix(value, "~") {
		if value == "" {
			return nil
		}
		return []string{from(dir, value)}
	}
	name, rest, _ := strings.Cut(value[1:], "/")
	homes := []string{home(n.tree.root, name)}
	for at := config; ; at = filepath.Dir(at) {
		if homes = append(homes, at); at == "/" || at == "." {
			break
		}
	}
	var out []string
	for _, h := range homes {
		if p := h + "/" + rest; h != "" && rest != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// home returns the home of an account, or of the owner of a directory if there is no name;
// "" if that is not known.
func home(owned, name string) string {
	var u *user.User
	var err error
	var st unix.Stat_t
	switch {
	case name != "":
		u, err = user.Lookup(name)
	case unix.Stat(owned, &st) == nil:
		u, err = user.LookupId(strconv.Itoa(int(st.Uid)))
	}
	if u == nil || err != nil {
		return ""
	}
	return u.HomeDir
}

// interpreters run the file that is their first argument, which needs no slash.
var interpreters = strings.Fields(". source exec env sh bash dash zsh ksh fish python python2 python3 perl ruby " +
	"node deno bun php lua awk tclsh Rscript")

var (
	// expansion is the directory that a shell finds out, mostly the top of the worktree.
	expansion = lazyregexp.New(`\$(\w+|\{[^}]*\}|\([^)]*\))"?/`)
	quoted    = lazyregexp.New(`"[^"]*"|'[^']*'`)
	apart     = lazyregexp.New("[\\s;|&(){}<>\"'`$=!,]+")
)

// programs returns the words of a value that may be paths of programs: the whole, what is
// quoted, and all words with a slash or after the name of an interpreter.
func programs(value string) []string {
	var out []string
	add := func(w string) {
		if w != "" && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	value = strings.TrimPrefix(value, "!")
	if strings.Contains(value, "/") {
		add(value)
	}
	value = expansion().ReplaceAllString(value, " ./")
	for _, q := range quoted().FindAllString(value, -1) {
		if strings.Contains(q, "/") {
			add(q[1 : len(q)-1])
		}
	}
	after := false
	for _, w := range apart().Split(value, -1) {
		switch {
		case w == "" || strings.HasPrefix(w, "-"):
			continue
		case after, strings.Contains(w, "/"):
			add(w)
		}
		after = slices.Contains(interpreters, filepath.Base(w))
	}
	return out
}
