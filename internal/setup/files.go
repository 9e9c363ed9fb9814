package setup

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

func (p *Plan) add(s step) { p.steps = append(p.steps, s) }

// owner is whose a directory or file becomes: names are looked up when it is made. The zero
// value is whoever runs setup.
type owner struct{ user, group string }

func (p *Plan) give(path string, o owner) error {
	uid, gid := -1, -1
	if u, ok := p.host.user(o.user); ok {
		uid = u.uid
	} else if o.user != "" {
		return fmt.Errorf("there is no user %q", o.user)
	}
	if g, ok := p.host.group(o.group); ok {
		gid = g.gid
	} else if o.group != "" {
		return fmt.Errorf("there is no group %q", o.group)
	}
	if uid < 0 && gid < 0 {
		return nil
	}
	return os.Lchown(p.host.at(path), uid, gid)
}

func (p *Plan) makeDir(path string, mode fs.FileMode, o owner, why string) {
	at := p.host.at(path)
	p.add(step{
		kind: Dir, name: path, how: fmt.Sprintf("mode %04o, %s", mode, why),
		there: func() (string, error) {
			info, err := os.Lstat(at)
			if os.IsNotExist(err) {
				return "", nil
			}
			if err == nil && !info.IsDir() {
				err = fmt.Errorf("%s is no directory", path)
			}
			if err != nil {
				return "", err
			}
			return p.differs(info, mode, o), p.unusable(path, info, o)
		},
		do: func(context.Context) error {
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return err
			}
			if err := os.Mkdir(at, mode); err != nil && !os.IsExist(err) {
				return err
			}
			if err := p.give(path, o); err != nil {
				return err
			}
			return os.Chmod(at, mode)
		},
	})
}

// unusable returns an error if the owner could not use a directory that is there.
func (p *Plan) unusable(path string, info fs.FileInfo, o owner) error {
	st := info.Sys().(*syscall.Stat_t)
	u, known := p.host.user(o.user)
	g, _ := p.host.group(o.group)
	switch {
	case o.user != "" && (!known || int(st.Uid) != u.uid):
		return fmt.Errorf("it belongs to uid %d and not to %s: another daemon has used it; move it away, or give it "+
			"with all that it holds to %s", st.Uid, o.user, o.user)
	case o.user == "" && o.group != "" && info.Mode().Perm()&0o001 == 0 &&
		(int(st.Gid) != g.gid || info.Mode().Perm()&0o010 == 0):
		return fmt.Errorf("members of %s cannot enter it (mode %04o); let them, as with: chmod 711 %s", o.group,
			info.Mode().Perm(), path)
	}
	return nil
}

// differs says how something that is there is, and what it would have been.
func (p *Plan) differs(info fs.FileInfo, mode fs.FileMode, o owner) string {
	st := info.Sys().(*syscall.Stat_t)
	u, known := p.host.user(o.user)
	g, grouped := p.host.group(o.group)
	switch {
	case info.Mode().Perm() != mode:
		return fmt.Sprintf("kept, with mode %04o and not %04o", info.Mode().Perm(), mode)
	case known && int(st.Uid) != u.uid:
		return fmt.Sprintf("kept, of uid %d and not of %s", st.Uid, o.user)
	case grouped && int(st.Gid) != g.gid:
		return fmt.Sprintf("kept, of gid %d and not of %s", st.Gid, o.group)
	}
	return "kept"
}

// makeFile makes a file with this content. why says what it is for, and other what to do if
// there is another one.
func (p *Plan) makeFile(path string, content []byte, mode fs.FileMode, o owner, why, other string) {
	at := p.host.at(path)
	p.add(step{
		kind: File, name: path, how: fmt.Sprintf("mode %04o, %s", mode, why), sum: sumOf(content),
		there: func() (string, error) {
			info, err := os.Lstat(at)
			if os.IsNotExist(err) {
				return "", nil
			}
			if err == nil && !info.Mode().IsRegular() {
				err = fmt.Errorf("%s is no regular file", path)
			}
			if err != nil {
				return "", err
			}
			have, err := os.ReadFile(at)
			if err != nil {
				return "", err
			}
			if sumOf(have) != sumOf(content) {
				return "kept, and it differs from what setup would write: " + other, nil
			}
			return p.differs(info, mode, o), nil
		},
		do: func(context.Context) error {
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return err
			}
			// It appears whole, with its owner, and never in place of another one.
			tmp := path + ".setup"
			if err := os.WriteFile(p.host.at(tmp), content, 0o600); err != nil {
				return err
			}
			err := p.give(tmp, o)
			if err == nil {
				err = os.Chmod(p.host.at(tmp), mode)
			}
			if err == nil {
				err = unix.Renameat2(unix.AT_FDCWD, p.host.at(tmp), unix.AT_FDCWD, at, unix.RENAME_NOREPLACE)
			}
			if err != nil {
				_ = os.Remove(p.host.at(tmp))
			}
			return err
		},
	})
}
