package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// WriteFile puts data at use.Path in one step: whoever reads it sees the old
// content or the new one. A replaced file keeps its mode and, where that is
// possible, its owner; a new one gets perm. Anything but a regular file is left
// alone. The content is not forced to disk.
func WriteFile(ctx context.Context, b Box, use PathUse, data []byte, perm os.FileMode) error {
	use.Op = Write
	dir, err := b.Open(ctx, use, os.O_WRONLY)
	if err != nil {
		return err
	}
	defer dir.Close()
	fd, name := int(dir.Fd()), filepath.Base(use.Path)

	uid, gid := -1, -1
	var st unix.Stat_t
	switch err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("write %s: not a regular file", use.Path)
	case err == nil:
		// Without the bits that change who a program runs as: the content is new.
		perm = os.FileMode(st.Mode & 0o777)
		uid, gid = int(st.Uid), int(st.Gid)
	case !errors.Is(err, unix.ENOENT):
		return fmt.Errorf("look at %s: %w", use.Path, err)
	}

	tmp := ".sandboxd-" + rand.Text()
	out, err := unix.Openat(fd, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", use.Path, err)
	}
	if err := finishFile(os.NewFile(uintptr(out), tmp), data, perm.Perm(), uid, gid); err != nil {
		_ = unix.Unlinkat(fd, tmp, 0)
		return fmt.Errorf("write %s: %w", use.Path, err)
	}
	if err := ctx.Err(); err != nil {
		_ = unix.Unlinkat(fd, tmp, 0)
		return err
	}
	if err := unix.Renameat(fd, tmp, fd, name); err != nil {
		_ = unix.Unlinkat(fd, tmp, 0)
		return fmt.Errorf("write %s: %w", use.Path, err)
	}
	return nil
}

func finishFile(f *os.File, data []byte, perm os.FileMode, uid, gid int) error {
	_, err := f.Write(data)
	if err == nil && uid >= 0 && (uid != os.Geteuid() || gid != os.Getegid()) {
		// Only root can, and a file that changes hands is better than none.
		_ = f.Chown(uid, gid)
	}
	if err == nil {
		err = f.Chmod(perm)
	}
	return errors.Join(err, f.Close())
}
