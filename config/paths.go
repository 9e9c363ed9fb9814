package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Paths is where the daemon keeps what is its own. Nothing in it is created here.
type Paths struct {
	RuntimeDir     string // 0700, holds the sockets
	AgentSocket    string
	OperatorSocket string
	StateDir       string // 0700, one daemon at a time
	Database       string
	AuditDir       string // the log and its lock
	KeyDir         string // apart from the state: who can change the log must not sign it
	KeyFile        string

	from map[string]string // by name of the field: the variable that said so
}

// ResolvePaths finds the paths of the user of this process. Daemon and clients
// must agree on them, so that they come from the environment and never from the
// file.
func ResolvePaths(env func(string) string) (Paths, error) {
	return resolvePaths(env, os.Geteuid())
}

func resolvePaths(env func(string) string, uid int) (Paths, error) {
	p := Paths{from: map[string]string{}}
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
			return Paths{}, fmt.Errorf("no place for the %s: set %s or HOME", d.field, d.variable)
		}
		if !filepath.IsAbs(*d.into) {
			return Paths{}, fmt.Errorf("%s: %q is not an absolute path", d.variable, *d.into)
		}
		*d.into = filepath.Clean(*d.into)
	}
	p.AgentSocket = filepath.Join(p.RuntimeDir, "agent.sock")
	p.OperatorSocket = filepath.Join(p.RuntimeDir, "operator.sock")
	err := errors.Join(
		p.socket(env, "SANDBOXD_SOCKET", "agentSocket", &p.AgentSocket),
		p.socket(env, "SANDBOXD_OPERATOR_SOCKET", "operatorSocket", &p.OperatorSocket))
	if err == nil && p.AgentSocket == p.OperatorSocket {
		err = fmt.Errorf("both sockets are %q: agents could approve their own calls", p.AgentSocket)
	}
	p.Database = filepath.Join(p.StateDir, "state.db")
	p.AuditDir = p.StateDir
	p.KeyFile = filepath.Join(p.KeyDir, "audit.key")
	if err == nil && p.KeyDir == p.StateDir {
		err = fmt.Errorf("SANDBOXD_KEY_DIR: %q is the state directory; who can change the log there must not sign it", p.KeyDir)
	}
	return p, err
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

func (p *Paths) socket(env func(string) string, variable, field string, into *string) error {
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

// Private is what no call may see: the daemon's directories, its sockets where
// they lie elsewhere, and its configuration.
func Private(p Paths, files ...string) []string {
	out := []string{p.RuntimeDir, p.StateDir, p.KeyDir}
	for _, f := range append([]string{p.AgentSocket, p.OperatorSocket}, files...) {
		if f != "" && !inside(f, out) {
			out = append(out, f)
		}
	}
	return out
}
