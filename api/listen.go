package api

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sandboxd/sandboxd/tool"
)

// Listen opens a Unix socket that only the daemon's own uid can reach: mode 0600
// in a directory of mode 0700. Whoever calls holds the state lock, so a socket
// file that nobody answers is left over from a crash and replaced.
func Listen(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the runtime directory: %w", err)
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// private refuses a directory that others could put a socket into.
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
		return &tool.Error{Code: "already_running", Msg: "another daemon answers on " + path, Hint: "stop it first, or name other sockets"}
	}
	return os.Remove(path)
}
