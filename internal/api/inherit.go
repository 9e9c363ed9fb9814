package api

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// firstFD is where systemd puts the sockets that it opened.
const firstFD = 3

// Inherited returns the listening sockets that a service manager passed to this
// process, by their FileDescriptorName: "agent" and "operator". Without a manager
// there are none. It unsets the variables, so that no child process reads them.
func Inherited(env func(string) string, unset func(string) error) (map[string]net.Listener, error) {
	pid, fds, names := env("LISTEN_PID"), env("LISTEN_FDS"), env("LISTEN_FDNAMES")
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	if err := errors.Join(unset("LISTEN_PID"), unset("LISTEN_FDS"), unset("LISTEN_FDNAMES")); err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(fds)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("LISTEN_FDS is %q, want the number of sockets", fds)
	}
	list := strings.Split(names, ":")
	if len(list) != n {
		return nil, fmt.Errorf("LISTEN_FDNAMES names %d sockets, LISTEN_FDS says %d", len(list), n)
	}
	out := map[string]net.Listener{}
	for i, name := range list {
		if out[name] != nil || name != "agent" && name != "operator" {
			return nil, fmt.Errorf(
				"socket %q from the service manager: want one agent and one operator, by FileDescriptorName=", name,
			)
		}
		if out[name], err = inherit(firstFD+i, name); err != nil {
			return nil, fmt.Errorf("socket %q from the service manager: %w", name, err)
		}
	}
	return out, nil
}

// inherit checks an inherited socket as Listen checks a new one: it is a Unix socket
// that not every user can reach.
func inherit(fd int, name string) (net.Listener, error) {
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), name)
	defer f.Close() // FileListener duplicates it
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	path := l.Addr().String()
	fi, err := os.Lstat(path)
	if err == nil && (l.Addr().Network() != "unix" || fi.Mode()&os.ModeSocket == 0) {
		err = fmt.Errorf("%q is not a Unix socket with a path", path)
	}
	if err == nil && fi.Mode().Perm()&0o007 != 0 {
		err = &tool.Error{
			Code: "socket_open_to_all",
			Msg:  fmt.Sprintf("%s has mode %#o: every user could call", path, fi.Mode().Perm()),
			Hint: "set SocketMode=0600, or 0660 with SocketGroup=",
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
