package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Access says who can connect to a socket, beside root and the daemon's own uid. The zero value is nobody.
type Access struct {
	Group string // "" is none
	GID   int
}

// OfGroup refuses a socket of the service manager to which others can connect than the configuration says.
func OfGroup(l net.Listener, who Access) error {
	path := l.Addr().String()
	info, err := os.Lstat(path)
	if err != nil || who.Group == "" {
		return err
	}
	if st := info.Sys().(*syscall.Stat_t); int(st.Gid) != who.GID || info.Mode().Perm() != 0o660 {
		return &tool.Error{
			Code: "socket_of_another_group",
			Msg: fmt.Sprintf("the service manager made %s with mode %#o and group %d, and the configuration names %s",
				path, info.Mode().Perm(), st.Gid, who.Group),
			Hint: "say the same in SocketGroup= and SocketMode= of the unit, or leave the group out here",
		}
	}
	return nil
}

// Listen opens a Unix socket. Without a group it has mode 0600, in a directory of mode 0700 if
// Listen makes that. With a group it has mode 0660 and that group; then other users can enter
// the directory, but see and change nothing in it. The caller holds the state lock. So if nobody
// answers at a socket file, it is left over from a crash, and Listen replaces it.
func Listen(path string, who Access) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the runtime directory: %w", err)
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	if err := who.open(dir); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The mode is set before the socket is bound, and the file gets it. So nobody else can connect
	// before the file has its group.
	closed := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }), err)
	}}
	l, err := closed.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", path, err)
	}
	mode := os.FileMode(0o600)
	if who.Group != "" {
		mode, err = 0o660, os.Lchown(path, -1, who.GID)
		if errors.Is(err, unix.EPERM) {
			err = &tool.Error{
				Code: "group_not_given",
				Msg:  fmt.Sprintf("uid %d cannot give %s to the group %s", os.Geteuid(), path, who.Group),
				Hint: "make the daemon's user a member of that group, and start the daemon anew",
			}
		}
	}
	if err = errors.Join(err, os.Chmod(path, mode)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// open lets the group through a directory of the daemon. Its error says so if a directory above keeps the group out.
func (a Access) open(dir string) error {
	if a.Group == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o011 != 0o011 {
		err = os.Chmod(dir, info.Mode().Perm()|0o011)
	}
	if err != nil {
		return fmt.Errorf("let the group %s through the runtime directory: %w", a.Group, err)
	}
	for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		ofGroup := int(st.Gid) == a.GID && info.Mode().Perm()&0o010 != 0
		if info.Mode().Perm()&0o001 == 0 && !ofGroup {
			return &tool.Error{
				Code: "socket_unreachable",
				Msg: fmt.Sprintf("the group %s cannot reach sockets in %s: %s has mode %#o", a.Group, dir, at,
					info.Mode().Perm()),
				Hint: "set SANDBOXD_RUNTIME_DIR to a directory that everybody can enter, such as /run/sandboxd",
			}
		}
		if at == "/" {
			return nil
		}
	}
}

// private refuses a directory into which other users could put a socket.
func private(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || !fi.IsDir() || int(st.Uid) != os.Geteuid() || fi.Mode().Perm()&0o022 != 0 {
		return &tool.Error{
			Code: "runtime_dir_unsafe",
			Msg:  fmt.Sprintf("%s is not a directory that only uid %d can write", dir, os.Geteuid()),
			Hint: "chmod 700 it, or name sockets elsewhere with SANDBOXD_SOCKET and SANDBOXD_OPERATOR_SOCKET",
		}
	}
	return nil
}

func removeStale(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%q exists and is not a socket", path)
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return &tool.Error{
			Code: "already_running", Msg: "another daemon answers on " + path,
			Hint: "stop it first, or name other sockets",
		}
	}
	return os.Remove(path)
}
