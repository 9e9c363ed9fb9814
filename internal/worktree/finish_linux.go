package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// finish removes what git leaves of a worktree that was there before the daemon: the sandbox keeps its .git, and
// there git stops. All but that is removed in the sandbox; then nothing else may be left, and the .git must be one
// that names a worktree of this repository. No link is followed.
func (g Git) finish(ctx context.Context, t Tree) error {
	inode, err := g.inode(ctx, t)
	if err != nil {
		return err
	}
	// Once the shell is in a directory, no name leads it to another one.
	const empty = `cd -P -- "$1" && [ "$(stat -c %i .)" = "$2" ] &&
		exec find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf -- {} +`
	if _, err := g.run(ctx, filepath.Dir(t.Path), "/bin/sh", "-c", empty, "sh", t.Path,
		strconv.FormatUint(inode, 10)); err != nil {
		return err
	}
	use := guard.PathUse{Raw: t.Path, Path: t.Path, Op: guard.Write}
	parent, err := g.Box.Open(ctx, use, unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer parent.Close()
	name := filepath.Base(t.Path)
	return g.Box.Do(use, func() error {
		fd, err := unix.Openat(int(parent.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		dir := os.NewFile(uintptr(fd), t.Path)
		defer dir.Close()
		left, err := dir.Readdirnames(2)
		if err != nil || len(left) != 1 || left[0] != ".git" {
			return fmt.Errorf("it holds %q, and only .git may be left: %w", left, errors.Join(err, unix.ENOTEMPTY))
		}
		if err := pointsTo(fd, t.Repo); err != nil {
			return err
		}
		if err := unix.Unlinkat(fd, ".git", 0); err != nil {
			return err
		}
		return unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR)
	})
}

// inode returns the number of the directory at the path of a worktree, which no link may be on the way to, and whose
// .git must name a worktree of the repository.
func (g Git) inode(ctx context.Context, t Tree) (uint64, error) {
	dir, err := g.Box.Open(ctx, guard.PathUse{Raw: t.Path, Path: t.Path, Op: guard.Read}, unix.O_DIRECTORY)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return 0, err
	}
	return st.Ino, pointsTo(int(dir.Fd()), t.Repo)
}

// same is an error unless what lies at the path of a worktree is that worktree, or nothing.
func (g Git) same(ctx context.Context, t Tree) error {
	inode, err := g.inode(ctx, t)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Lstat(t.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // git forgets it
		}
		err = errors.Join(err, errors.New("it has no .git"))
	}
	if err == nil && t.Inode != 0 && inode != t.Inode {
		err = errors.New("it is another directory")
	}
	if err != nil {
		return &tool.Error{
			Code: "worktree_replaced",
			Msg: fmt.Sprintf("%s is not the worktree any more that was made there, and was left as it is: %v",
				t.Path, err),
			Hint: "put the worktree back, or call with action keep",
		}
	}
	return nil
}

// Usable is an error unless a directory is there, in a workspace, with no link on the way to it.
func (g Git) Usable(ctx context.Context, dir string, roots []string) error {
	if !slices.ContainsFunc(roots, func(root string) bool { return guard.Within(dir, root) }) {
		return fmt.Errorf("%q is in no workspace", dir)
	}
	f, err := g.Box.Open(ctx, guard.PathUse{Raw: dir, Path: dir, Op: guard.Read}, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return f.Close()
}

// pointsTo checks that the .git of a directory names a worktree of a repository.
func pointsTo(dir int, repo string) error {
	fd, err := unix.Openat(dir, ".git", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), ".git")
	defer file.Close()
	text := make([]byte, unix.PathMax+100)
	n, err := file.Read(text)
	if err != nil {
		return err
	}
	at, ok := strings.CutPrefix(strings.TrimSuffix(string(text[:n]), "\n"), "gitdir: ")
	if !ok || filepath.Dir(at) != filepath.Join(repo, "worktrees") {
		return fmt.Errorf("its .git names %q, which is no worktree of %q", at, repo)
	}
	return nil
}
