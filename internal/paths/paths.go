// Package paths says where a daemon keeps its files, and where its clients find it.
//
//	p, err := paths.Resolve(os.Getenv)     // the daemon: it opens p.Database, and so on
//	socket := paths.AgentSocket(os.Getenv) // a client connects there
//
// Daemon and client must agree, so the answers never depend on the configuration. [Resolve] uses
// the environment and the user of the process. [AgentSocket] and [OperatorSocket] also look which
// sockets exist. They take one of the user only from a directory in which nobody else, but root, can
// put anything, unless SANDBOXD_SOCKET, SANDBOXD_OPERATOR_SOCKET or SANDBOXD_RUNTIME_DIR names it.
// What lies in /run/sandboxd is taken as it is: only root can make that directory, so its owner is
// trusted.
//
// The package creates nothing and keeps nothing, so it is safe for concurrent use. An error of
// Resolve says which variable to set; then the daemon does not start. AgentSocket and
// OperatorSocket return no error: a client learns from connect that no daemon is there. The program
// sandboxd-agent links this package, so it imports only the standard library.
//
// A new path is a field of [Daemon], set in resolve, with its variable in docs/configuration.md if it
// has one. Its cases go into the tables of paths_test.go.
package paths

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Daemon are the paths of one daemon.
type Daemon struct {
	RuntimeDir     string // holds the sockets; only its owner can write there
	AgentSocket    string
	OperatorSocket string
	StateDir       string // 0700, one daemon at a time
	Database       string
	AuditDir       string // the log and its lock
	KeyDir         string // apart from the state: who can change the log must not sign it
	KeyFile        string

	from map[string]string // by name of the field: the variable that said so
}

// Resolve finds the paths of the user of this process. After an error they must not be used: two of them may be one.
func Resolve(env func(string) string) (Daemon, error) {
	return resolve(env, os.Geteuid())
}

// AgentSocket returns where a client finds the agent socket: where SANDBOXD_SOCKET says, else where a daemon with
// this environment has it, else where one of the user's login has it, else that of the system's daemon.
func AgentSocket(env func(string) string) string {
	return clientSocket(env, os.Geteuid(), "SANDBOXD_SOCKET", "agent.sock")
}

// OperatorSocket is AgentSocket for the operator socket, which SANDBOXD_OPERATOR_SOCKET names.
func OperatorSocket(env func(string) string) string {
	return clientSocket(env, os.Geteuid(), "SANDBOXD_OPERATOR_SOCKET", "operator.sock")
}

// logins has the runtime directory of each user who is logged in. Tests have another one.
var logins = "/run/user"

func clientSocket(env func(string) string, uid int, variable, name string) string {
	if s := env(variable); s != "" {
		return strings.TrimPrefix(s, "unix://")
	}
	if v := env("SANDBOXD_RUNTIME_DIR"); filepath.IsAbs(v) {
		return filepath.Join(v, name)
	}
	system := filepath.Join("/run/sandboxd", name)
	p, err := resolve(env, uid)
	if err != nil {
		return system // for users without a home
	}
	own := filepath.Join(p.RuntimeDir, name)
	places := []string{own}
	if env("XDG_RUNTIME_DIR") == "" { // clients of MCP start programs without it
		places = append(places, filepath.Join(logins, strconv.Itoa(uid), "sandboxd", name))
	}
	if _, err := os.Lstat(filepath.Dir(own)); err == nil && !trusted(filepath.Dir(own), uid) {
		own = system
	}
	if found := first(places, uid); found != "" {
		return found
	}
	if _, err := os.Lstat(system); err == nil { // in /run only root lets others put anything
		return system
	}
	return own
}

// first returns the first of these sockets that is there and that nobody but a user, or root, can have put there; ""
// if none is.
func first(sockets []string, uid int) string {
	for _, socket := range sockets {
		if _, err := os.Lstat(socket); err == nil && trusted(filepath.Dir(socket), uid) {
			return socket
		}
	}
	return ""
}

// trusted reports whether nobody but a user, or root, can change what is in a directory.
func trusted(dir string, uid int) bool {
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() || st.Mode().Perm()&0o022 != 0 {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && (int(sys.Uid) == uid || sys.Uid == 0)
}

func resolve(env func(string) string, uid int) (Daemon, error) {
	p := Daemon{from: map[string]string{}}
	for _, d := range []struct {
		field, variable, root string
		into                  *string
		user                  func() string
	}{
		{"stateDir", "SANDBOXD_STATE_DIR", "/var/lib/sandboxd", &p.StateDir, func() string {
			return below(env, "XDG_STATE_HOME", ".local/state")
		}},
		{"keyDir", "SANDBOXD_KEY_DIR", "/etc/sandboxd", &p.KeyDir, func() string {
			return below(env, "XDG_CONFIG_HOME", ".config")
		}},
		{"runtimeDir", "SANDBOXD_RUNTIME_DIR", "/run/sandboxd", &p.RuntimeDir, func() string {
			if dir := env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
				return filepath.Join(dir, "sandboxd")
			}
			// Not /tmp: there anybody can make the directory first and wait in it.
			if p.StateDir == "" {
				return ""
			}
			return filepath.Join(p.StateDir, "run")
		}},
	} {
		switch v := env(d.variable); {
		case v != "":
			*d.into, p.from[d.field] = v, d.variable
		case d.field == "keyDir" && env("SANDBOXD_STATE_DIR") != "":
			// A daemon with a state of its own, as in a test, has a key of its own.
			*d.into, p.from[d.field] = filepath.Clean(p.StateDir)+"-key", "SANDBOXD_STATE_DIR"
		case uid == 0:
			*d.into = d.root
		default:
			*d.into = d.user()
		}
		if *d.into == "" {
			return Daemon{}, fmt.Errorf("no place for the %s: set %s or HOME", d.field, d.variable)
		}
		if !filepath.IsAbs(*d.into) {
			return Daemon{}, fmt.Errorf("%s: %q is not an absolute path", d.variable, *d.into)
		}
		*d.into = filepath.Clean(*d.into)
	}
	p.AgentSocket = filepath.Join(p.RuntimeDir, "agent.sock")
	p.OperatorSocket = filepath.Join(p.RuntimeDir, "operator.sock")
	err := errors.Join(
		p.socket(env, "SANDBOXD_SOCKET", "agentSocket", &p.AgentSocket),
		p.socket(env, "SANDBOXD_OPERATOR_SOCKET", "operatorSocket", &p.OperatorSocket))
	if err == nil && p.AgentSocket == p.OperatorSocket {
		err = fmt.Errorf("SANDBOXD_SOCKET and SANDBOXD_OPERATOR_SOCKET: both are %q; "+
			"agents could approve their own calls", p.AgentSocket)
	}
	p.Database = filepath.Join(p.StateDir, "state.db")
	p.AuditDir = p.StateDir
	p.KeyFile = filepath.Join(p.KeyDir, "audit.key")
	if err == nil && p.KeyDir == p.StateDir {
		err = fmt.Errorf("SANDBOXD_KEY_DIR: %q is the state directory; who can change the log there must not sign it",
			p.KeyDir)
	}
	return p, err
}

// From returns the variable that set one of stateDir, keyDir, runtimeDir, agentSocket and operatorSocket; "" if none
// did.
func (p Daemon) From(field string) string { return p.from[field] }

// KeyWhy says why the key is looked for in KeyDir, when it is not its usual place.
func (p Daemon) KeyWhy() string {
	switch p.from["keyDir"] {
	case "":
		return ""
	case "SANDBOXD_STATE_DIR":
		return "SANDBOXD_STATE_DIR is set and SANDBOXD_KEY_DIR is not, so the key belongs beside that directory"
	}
	return "SANDBOXD_KEY_DIR says so"
}

func below(env func(string) string, variable, inHome string) string {
	if dir := env(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sandboxd")
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, inHome, "sandboxd")
	}
	return ""
}

// maxSocketPath is what the kernel takes, without its final zero.
const maxSocketPath = 107

func (p *Daemon) socket(env func(string) string, variable, field string, into *string) error {
	if v := env(variable); v != "" {
		*into, p.from[field] = strings.TrimPrefix(v, "unix://"), variable
	}
	if !filepath.IsAbs(*into) {
		return fmt.Errorf("%s: %q is not an absolute path", variable, *into)
	}
	*into = filepath.Clean(*into)
	if len(*into) > maxSocketPath {
		return fmt.Errorf("socket %q has %d characters, the kernel takes %s: set %s",
			*into, len(*into), strconv.Itoa(maxSocketPath), variable)
	}
	return nil
}
