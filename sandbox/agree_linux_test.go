package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/view"
	"pgregory.net/rapid"
)

// TestX39_GuardAndCageAgree holds two readers of the same settings against each
// other: the guard, which compares names (Rules.Check), and the cage, which is mounts
// and Landlock. A program in the cage acts on random trees under random settings.
//
//  1. For every file and directory there is: what the guard allows by its physical
//     name the cage lets through, and the other way round. File tools give the same
//     answer as the guard.
//  2. Whatever a program does with links, "..", renames and new directories: no byte
//     comes out of a file that the guard refuses to read, and nothing changes that it
//     refuses to write. Afterwards no denied path is there that was not before.
//  3. The same after the host has replaced files and directories between two calls.
//
// Where they differ on purpose, [agreement.exempt] says why.
func TestX39_GuardAndCageAgree(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		for _, parent := range treeParents() {
			for _, level := range []string{"namespaces", "landlock"} {
				t.Run(level+" in "+parent, func(t *testing.T) {
					agree(t, parent,
						Options{NoNamespaces: level == "landlock"})
				})
			}
		}
	})
}

func agree(t *testing.T, parent string, o Options) {
	base, err := os.MkdirTemp(parent, "cage-agree-")
	if err == nil {
		base, err = filepath.EvalSymlinks(base)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = removeTree(base) })
	if err := os.Mkdir(base+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, "/proc/self/exe", base+"/bin/actor", 0o755)
	o.Home = base
	cage := newCage(t, o)
	if o.NoNamespaces {
		needNoNamespaces(t, cage)
	} else {
		needCage(t, cage, "landlock")
	}
	// Each costs two calls of a new session, and there are eight times as many. More:
	// go test ./sandbox -run Agree -rapid.checks 1000
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("12")
		t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
	}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		a := &agreement{base: base, tree: fmt.Sprintf("%s/t%d", base, n), cage: cage}
		defer a.end()
		a.run(rt)
	})
}

// agreement is one random tree with one random set of rules.
type agreement struct {
	base, tree string
	cage       Backend
	box        Box
	s          guard.Settings // normalised
	rules      *guard.Rules
	secret     map[string]bool // contents that the guard refuses to read
}

func (a *agreement) end() {
	if a.box != nil {
		_ = a.box.Close()
	}
	_ = a.cage.Forget(a.tree)
	_ = removeTree(a.tree)
}

var segment = rapid.SampledFrom([]string{"a", "b", "c", "l", ".envrc", ".vscode"})

// name is a path below the tree, as it could be written.
func (a *agreement) name(rt *rapid.T, label string, segments *rapid.Generator[string]) string {
	return a.tree + "/" + strings.Join(rapid.SliceOfN(segments, 1, 3).Draw(rt, label), "/")
}

func (a *agreement) run(rt *rapid.T) {
	a.build(rt)
	if !a.settle(rt) {
		return
	}
	a.compare(rt)
	a.attack(rt)
	a.hostChanges(rt)
	a.attack(rt)
}

// build makes the tree. The content of each file is its own name.
func (a *agreement) build(rt *rapid.T) {
	must(rt, os.Mkdir(a.tree, 0o755))
	for _, p := range rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) string { return a.name(rt, "name", segment) }), 1,
		12).Draw(rt, "tree") {
		if filepath.Base(p) == "l" { // a link
			to := rapid.SampledFrom([]string{
				"a", "b", "../a", "../b/c", "..", ".", "l", a.tree + "/a", a.tree + "/b/c",
				a.tree + "/c", a.tree + "/../..",
			}).Draw(rt, "target")
			if dir := a.dir(filepath.Dir(p)); dir != "" {
				_ = os.Symlink(to, filepath.Join(dir, filepath.Base(p)))
			}
			continue
		}
		if rapid.Bool().Draw(rt, "directory") {
			a.dir(p)
			continue
		}
		a.file(p)
	}
}

// dir makes a directory and gives its physical name, for a part of it may be a link:
// "" for one that leads out of the tree.
func (a *agreement) dir(p string) string {
	r, err := guard.Resolve(p, "/", "")
	if err != nil || !guard.Within(r, a.tree) || os.MkdirAll(r, 0o755) != nil {
		return ""
	}
	return r
}

func (a *agreement) file(p string) {
	dir := a.dir(filepath.Dir(p))
	if dir == "" {
		return
	}
	p = filepath.Join(dir, filepath.Base(p))
	if _, err := os.Lstat(p); err != nil {
		_ = os.WriteFile(p, []byte(p), 0o644)
	}
}

// settle draws the settings; false when they are none.
func (a *agreement) settle(rt *rapid.T) bool {
	path := rapid.Custom(func(rt *rapid.T) string {
		return a.name(rt, "path", rapid.OneOf(segment, rapid.Just("..")))
	})
	list := func(label string, most int) (out []string) {
		for _, p := range rapid.SliceOfN(path, 0, most).Draw(rt, label) {
			// Above the tree lies what the test itself needs.
			if r, err := guard.Resolve(p, "/", ""); err == nil && guard.Within(r, a.tree) {
				out = append(out, p)
			}
		}
		return out
	}
	s := guard.Settings{
		AllowedReadPaths: list("read", 3), AllowedWritePaths: list("write", 3),
		DeniedPaths: list("denied", 4),
	}
	switch rapid.IntRange(0, 3).Draw(rt, "whole") {
	case 0:
		s.AllowedReadPaths = nil
	case 1:
		s.AllowedReadPaths = append(s.AllowedReadPaths, a.tree)
	}
	switch rapid.IntRange(0, 3).Draw(rt, "all writable") {
	case 0, 1:
		s.AllowedWritePaths = append(s.AllowedWritePaths, a.tree)
	case 2:
		s.AllowedWritePaths = append(s.AllowedWritePaths, guard.NoPath)
	}
	if len(s.AllowedReadPaths) > 0 {
		s.AllowedReadPaths = append(s.AllowedReadPaths, a.base+"/bin")
	}
	n, _, err := s.Normalise()
	if err != nil {
		return false
	}
	a.s, a.rules = n, guard.NewRules(n)
	a.box, err = a.cage.Box(context.Background(), a.tree, rapid.SampledFrom(Profiles).Draw(rt, "profile"), s)
	must(rt, err)
	a.secret = map[string]bool{}
	a.note()
	return true
}

// note remembers what must not come out.
func (a *agreement) note() {
	for p, e := range a.snapshot() {
		if strings.HasPrefix(e.text, a.tree) && e.mode.IsRegular() && a.refused(p, guard.Read) {
			a.secret[e.text] = true
		}
	}
}

func (a *agreement) refused(p string, op guard.Op) bool {
	return a.rules.Check(guard.Uses{Paths: []guard.PathUse{{Path: p, Op: op}}}) != nil
}

type node struct {
	mode fs.FileMode
	text string
}

// snapshot is the tree as the host has it, by physical names.
func (a *agreement) snapshot() map[string]node {
	out := map[string]node{}
	_ = filepath.WalkDir(a.tree, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		e := node{mode: info.Mode()}
		switch {
		case d.Type() == fs.ModeSymlink:
			e.text, _ = os.Readlink(p)
		case d.Type().IsRegular():
			b, _ := os.ReadFile(p)
			e.text = string(b)
		}
		out[p] = e
		return nil
	})
	return out
}

// inCage lets the program do these acts.
func (a *agreement) inCage(rt *rapid.T, acts []act) []told {
	in, err := os.CreateTemp(a.base, "acts-")
	must(rt, err)
	defer os.Remove(in.Name())
	defer in.Close()
	must(rt, json.NewEncoder(in).Encode(acts))
	_, err = in.Seek(0, 0)
	must(rt, err)
	var out, errs bytes.Buffer
	p, err := a.box.Start(context.Background(), Spec{
		Argv: []string{a.base + "/bin/actor", "-acts", a.tree}, Dir: "/",
		Stdin: in, Stdout: &out, Stderr: &errs,
	})
	must(rt, err)
	e, err := p.Wait()
	must(rt, err)
	if e.Code != 0 {
		rt.Fatalf("the program in the cage: %+v\n%s", e, errs.String())
	}
	var answers []told
	must(rt, json.Unmarshal(out.Bytes(), &answers))
	return answers
}

// compare is point 1.
func (a *agreement) compare(rt *rapid.T) {
	var acts []act
	tree := a.snapshot()
	for _, p := range slices.Sorted(maps.Keys(tree)) {
		switch m := tree[p].mode; {
		case m.IsRegular():
			acts = append(acts, act{Do: "read", Path: p}, act{Do: "open to write", Path: p})
		case m.IsDir():
			acts = append(acts, act{Do: "list", Path: p}, act{Do: "make and remove", Path: p + "/new"})
		}
	}
	for i, got := range a.inCage(rt, acts) {
		x := acts[i]
		op := guard.Read
		if x.Do == "open to write" || x.Do == "make and remove" {
			op = guard.Write
		}
		refused := a.refused(x.Path, op)
		if a.own(x, got) {
			continue
		}
		if why := a.exempt(x, op); (got.Errno != "") != refused && why == "" {
			rt.Errorf("%s %s: the guard refuses: %v, the cage: %q", x.Do, x.Path, refused, got.Errno)
		}
		if got.Errno == "" && x.Do == "read" && got.Text != tree[x.Path].text {
			rt.Errorf("reading %s gave %q", x.Path, got.Text)
		}
		f, err := a.box.Open(context.Background(), guard.PathUse{Path: x.Path, Op: op}, os.O_RDONLY)
		if err == nil {
			f.Close()
		}
		if (err != nil) != refused && !a.protected(x.Path) {
			rt.Errorf("%s %s: the guard refuses: %v, a file tool: %v", x.Do, x.Path, refused, err)
		}
	}
	if rt.Failed() {
		a.tell(rt)
	}
}

// own reports whether an act met a directory of the cage's own /tmp, which has the
// host's name and nothing of the host but places for what is shown below it.
func (a *agreement) own(x act, got told) bool {
	c := a.cage.(*cage)
	v := a.box.(*box).prepared.view
	shown := v.Readable(v.Shown)
	if c.noNamespaces || !view.BelowTmp(x.Path) || slices.ContainsFunc(shown,
		func(p string) bool { return guard.Within(x.Path, p) }) {
		return false
	}
	if x.Do == "make and remove" {
		return true
	}
	if x.Do != "list" || got.Errno != "" {
		return false
	}
	for name := range strings.SplitSeq(got.Text, "/") {
		if name != "" && !slices.ContainsFunc(shown, func(p string) bool { return guard.Within(p, x.Path+"/"+name) }) {
			return false
		}
	}
	return true
}

// exempt is why the cage may refuse what the guard allows; it never is why it may
// let through what the guard refuses.
func (a *agreement) exempt(x act, op guard.Op) string {
	if a.refused(x.Path, op) {
		return ""
	}
	c := a.cage.(*cage)
	dir := x.Path
	if x.Do == "make and remove" {
		dir = filepath.Dir(dir)
	}
	hides := slices.Clone(a.s.DeniedPaths)
	if op == guard.Write {
		hides = slices.Concat(hides, keptPaths(a.box.(*box).prepared.trees.State()))
	}
	readable := len(a.s.AllowedReadPaths) == 0 || slices.ContainsFunc(a.s.AllowedReadPaths,
		func(p string) bool { return guard.Within(x.Path, p) })
	switch {
	case op == guard.Write && a.protected(x.Path):
		return "what decides what runs on the host is read-only, though the list allows it"
	case op == guard.Write && (view.BelowTmp(x.Path) || c.noNamespaces) && !readable:
		return "below /tmp, and everywhere without namespaces, the cage shows only what may be read"
	case c.noNamespaces && slices.ContainsFunc(hides, func(p string) bool { return guard.Within(p, dir) && exists(p) }):
		return "without namespaces, a directory above a hidden path cannot be given whole"
	case op == guard.Write && len(a.s.AllowedWritePaths) == 0 && !readable:
		return "unrestricted writing with a list of readable paths: the cage shows those alone"
	}
	return ""
}

// protected paths, where they exist, are read-only; the guard does not refuse them.
func (a *agreement) protected(path string) bool {
	return a.box.(*box).prepared.trees.Keeps(path)
}

// moved reports whether a protected file is as it was below another directory: the name is
// what counts, so a directory above it may be moved, with the file and the mount on it.
func moved[T comparable](path string, was T, after map[string]T) bool {
	for q, is := range after {
		if q != path && is == was && filepath.Base(q) == filepath.Base(path) {
			return true
		}
	}
	return false
}

// attack is point 2.
func (a *agreement) attack(rt *rapid.T) {
	word := rapid.OneOf(segment, rapid.Just(".."), rapid.Just("new"))
	acts := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) act {
		x := act{Do: rapid.SampledFrom([]string{
			"put", "append", "truncate", "mkdir", "remove", "remove all", "rename", "rename", "exchange", "symlink",
			"link", "chmod",
		}).Draw(rt, "do"), Path: a.name(rt, "path", word), To: a.name(rt, "to", word)}
		x.Path = strings.TrimRight(x.Path, "/.") // nothing can be done to ".."
		if x.Do == "symlink" && rapid.Bool().Draw(rt, "relative") {
			x.To = strings.TrimPrefix(x.To, a.tree+"/")
		}
		return x
	}), 1, 12).Draw(rt, "acts")
	// After each, everything is read again that has a name now or had one before. What is
	// protected is what was when the call began: a link that the call makes of a protected
	// name protects what it leads to from the next call on.
	before := a.snapshot()
	protected := map[string]bool{}
	for p := range before {
		protected[p] = a.protected(p)
	}
	all := slices.Clone(acts)
	for _, first := range []string{"a", "b", "c", "l", "new", "..", ".envrc", ".vscode"} {
		for _, second := range []string{
			"", "/a", "/b", "/c", "/l", "/new", "/l/a", "/l/b", "/a/a", "/b/b", "/c/c",
			"/a/b", "/b/a", "/../a/b",
		} {
			all = append(all, act{Do: "read", Path: a.tree + "/" + first + second})
		}
	}
	for p := range before {
		all = append(all, act{Do: "read", Path: p})
	}
	answers := a.inCage(rt, all)
	for i, got := range answers {
		if a.secret[got.Text] {
			rt.Errorf("%s %s brought out %s", all[i].Do, all[i].Path, got.Text)
		}
	}
	after := a.snapshot()
	paths := maps.Clone(before)
	maps.Copy(paths, after)
	for p := range paths {
		was, there := before[p]
		is, still := after[p]
		if was == is && there == still {
			continue
		}
		denied := slices.ContainsFunc(a.s.DeniedPaths, func(d string) bool { return guard.Within(p, d) })
		switch {
		case a.refused(p, guard.Write), denied:
			rt.Errorf("%s changed from %v to %v", p, was, is)
		case protected[p] && !(moved(p, was, after) && !still):
			rt.Errorf("the protected %s changed from %v to %v", p, was, is)
		}
	}
	if rt.Failed() {
		for i, x := range acts {
			rt.Logf("%+v: %+v", x, answers[i])
		}
		a.tell(rt)
	}
}

// hostChanges is point 3: what editors and git on the host do to files and
// directories, which takes mounts on them away.
func (a *agreement) hostChanges(rt *rapid.T) {
	for _, p := range slices.Sorted(maps.Keys(a.snapshot())) {
		if p == a.tree || !rapid.Bool().Draw(rt, "change "+p) {
			continue
		}
		info, err := os.Lstat(p)
		switch {
		case err != nil: // went with its directory
		case info.IsDir():
			_ = os.RemoveAll(p)
			_ = os.Mkdir(p, 0o755)
			a.file(p + "/a")
		case info.Mode().IsRegular():
			must(rt, os.WriteFile(a.base+"/replacement", []byte(p), 0o644))
			must(rt, os.Rename(a.base+"/replacement", p))
		}
	}
	for _, d := range a.s.DeniedPaths { // those that were absent appear
		a.file(d)
	}
	a.note()
}

func (a *agreement) tell(rt *rapid.T) {
	rt.Logf("read %q\nwrite %q\ndenied %q", a.s.AllowedReadPaths, a.s.AllowedWritePaths, a.s.DeniedPaths)
	tree := a.snapshot()
	for _, p := range slices.Sorted(maps.Keys(tree)) {
		rt.Logf("%s %s %q", tree[p].mode, p, tree[p].text)
	}
}

func must(rt *rapid.T, err error) {
	rt.Helper()
	if err != nil {
		rt.Fatal(err)
	}
}
