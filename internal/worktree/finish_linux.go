package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
)

// finish removes what git leaves of a worktree that was there before the daemon: the sandbox keeps its .git, and
// there git stops. All but that is removed in the sandbox; then nothing else may be left, and the .git must be one
// that names a worktree of this repository. No link is followed.
func (g Git) finish(ctx context.Context, t Tree) error {
	const empty = `cd -P -- "$1" && exec find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf -- {} +`
	if _, err := g.run(ctx, filepath.Dir(t.Path), "/bin/sh", "-c", empty, "sh", t.Path); err != nil {
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
