package search

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
	"golang.org/x/sys/unix"
)

// tree is a walk over the files below a directory. It opens each directory through the box, so it never enters one
// that the settings deny, and a link that is swapped in leads nowhere. It does not follow links and skips ignored
// and hidden files.
type tree struct {
	box     sandbox.Box
	hidden  bool // visit names that begin with a dot
	modules bool // enter node_modules
	refused int  // directories that were not searched, and ignore files not read
}

// entry is one file of a walk. Its directory stays open during the visit.
type entry struct {
	path string // physical
	rel  string // from the root of the walk
	name string
	dir  *os.File
}

// maxIgnore bounds the bytes of one ignore file. Each byte takes ignoreFactor bytes of memory as part of a rule.
const (
	maxIgnore    = 256 << 10
	ignoreFactor = 150
)

// maxBelow bounds the subdirectories of one directory that are entered.
const maxBelow = 20_000

// errStop ends a walk early without an error.
var errStop = errors.New("stop")

// walk visits every regular file below root. It keeps one open directory per level and a batch of names, whatever
// the size of the tree.
func (t *tree) walk(ctx context.Context, root guard.PathUse, visit func(entry) error) error {
	dir, err := t.open(ctx, root.Path)
	if err != nil {
		return toolkit.FileError("open", root, err)
	}
	err = t.enter(ctx, dir, root.Path, "", t.above(ctx, root.Path), visit)
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func (t *tree) open(ctx context.Context, path string) (*os.File, error) {
	return t.box.Open(ctx, guard.PathUse{Raw: path, Path: path, Op: guard.Read}, os.O_RDONLY|unix.O_DIRECTORY)
}

func (t *tree) enter(ctx context.Context, dir *os.File, path, rel string, outer *ignores,
	visit func(entry) error,
) error {
	defer dir.Close()
	rules := t.rules(ctx, dir, path, outer)
	if rules != outer {
		defer rules.hold.Release()
	}
	var below []string
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch, err := dir.ReadDir(1024)
		for _, d := range batch {
			name := d.Name()
			if name[0] == '.' && (!t.hidden || name == ".git") || name == "node_modules" && !t.modules {
				continue
			}
			full := join(path, name)
			kind := d.Type()
			if kind&fs.ModeType != 0 && !kind.IsDir() {
				continue
			}
			if rules.ignored(full, kind.IsDir()) {
				continue
			}
			if kind.IsDir() {
				if len(below) == maxBelow {
					t.refused++
					continue
				}
				below = append(below, name)
				continue
			}
			if err := visit(entry{full, strings.TrimPrefix(rel+"/"+name, "/"), name, dir}); err != nil {
				return err
			}
		}
		if err != nil || len(batch) == 0 {
			if err != nil && !errors.Is(err, io.EOF) {
				t.refused++
			}
			break
		}
	}
	for _, name := range below {
		full := join(path, name)
		sub, err := t.open(ctx, full)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !denied(err) {
				t.refused++
			}
			continue
		}
		if err := t.enter(ctx, sub, full, strings.TrimPrefix(rel+"/"+name, "/"), rules, visit); err != nil {
			return err
		}
	}
	return nil
}

// denied reports whether the settings deny a path. Nothing is said of it, not even that it is there.
func denied(err error) bool {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Code == "path_denied"
	}
	_, ok := errors.AsType[*guard.Denied](err)
	return ok
}

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// rules reads the ignore files of a directory. It looks for them in the open directory first, because most
// directories have none and then need no open.
func (t *tree) rules(ctx context.Context, dir *os.File, path string, outer *ignores) *ignores {
	n := &ignores{parent: outer, dir: path, git: has(dir, ".git"), hold: budget.Of(ctx).Part()}
	if has(dir, ".gitignore") {
		n.rules = t.parse(ctx, n, join(path, ".gitignore"))
	}
	if has(dir, ".ignore") {
		n.own = t.parse(ctx, n, join(path, ".ignore"))
	}
	if n.git {
		n.exclude = t.parse(ctx, n, join(path, ".git/info/exclude"))
	}
	if !n.git && n.rules == nil && n.own == nil && outer != nil {
		n.hold.Release()
		return outer
	}
	return n
}

func (t *tree) parse(ctx context.Context, n *ignores, path string) []ignoreRule {
	f, _, err := toolkit.Open(ctx, t.box, guard.PathUse{Raw: path, Path: path, Op: guard.Read})
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxIgnore))
	if err != nil || n.hold.Take(int64(len(b))*ignoreFactor) != nil {
		t.refused++ // the files that it names are visited
		return nil
	}
	if len(b) == maxIgnore {
		t.refused++
	}
	return parseIgnore(string(b))
}

// above collects the ignore files of the directories above the root, the outermost first, if the box allows them to
// be read.
func (t *tree) above(ctx context.Context, root string) *ignores {
	var dirs []string
	for d := root; d != "/"; {
		d = filepath.Dir(d)
		dirs = append(dirs, d)
	}
	var rules *ignores
	for i := len(dirs) - 1; i >= 0; i-- {
		dir, err := t.open(ctx, dirs[i])
		if err != nil {
			continue
		}
		rules = t.rules(ctx, dir, dirs[i], rules)
		dir.Close()
	}
	return rules
}

func has(dir *os.File, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}
