package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Paths are the places of one daemon.
type Paths struct {
	AgentSocket    string
	OperatorSocket string
	StateDir       string // database and record
	Database       string
	KeyFile        string // signs the checkpoints of the record; never in StateDir
}

// ResolvePaths says where a daemon of this user has its places. Root's are those
// of the system. env is os.Getenv.
//
// Without XDG_RUNTIME_DIR the runtime directory is a private one in the state
// directory: a name in /tmp could be taken by another user first.
func ResolvePaths(env func(string) string) (Paths, error) {
	root := os.Geteuid() == 0
	home := env("HOME")
	state := env("SANDBOXD_STATE_DIR")
	stateGiven := state != ""
	if !stateGiven {
		switch {
		case root:
			state = "/var/lib/sandboxd"
		case env("XDG_STATE_HOME") != "":
			state = filepath.Join(env("XDG_STATE_HOME"), "sandboxd")
		case home != "":
			state = filepath.Join(home, ".local/state/sandboxd")
		default:
			return Paths{}, fmt.Errorf("no state directory: set HOME or SANDBOXD_STATE_DIR")
		}
	}
	runtime := filepath.Join(state, "run")
	switch {
	case root:
		runtime = "/run/sandboxd"
	case env("XDG_RUNTIME_DIR") != "":
		runtime = filepath.Join(env("XDG_RUNTIME_DIR"), "sandboxd")
	}
	key := filepath.Join(home, ".config/sandboxd")
	switch {
	case env("XDG_CONFIG_HOME") != "":
		key = filepath.Join(env("XDG_CONFIG_HOME"), "sandboxd")
	case root && !stateGiven:
		key = "/etc/sandboxd"
	case home == "":
		key = state + "-key"
	}
	p := Paths{
		AgentSocket:    or(socket(env("SANDBOXD_SOCKET")), filepath.Join(runtime, "agent.sock")),
		OperatorSocket: or(socket(env("SANDBOXD_OPERATOR_SOCKET")), filepath.Join(runtime, "operator.sock")),
		StateDir:       state,
		Database:       filepath.Join(state, "state.db"),
		KeyFile:        filepath.Join(key, "audit.key"),
	}
	for _, path := range []string{p.AgentSocket, p.OperatorSocket, p.StateDir, p.KeyFile} {
		if !filepath.IsAbs(path) {
			return p, fmt.Errorf("%q is not absolute", path)
		}
	}
	return p, nil
}

// Private is what no call may see: the daemon's sockets, state and key.
func Private(p Paths) []string {
	return []string{filepath.Dir(p.AgentSocket), filepath.Dir(p.OperatorSocket), p.StateDir, filepath.Dir(p.KeyFile)}
}

// socket accepts unix:///path beside a path.
func socket(s string) string { return strings.TrimPrefix(s, "unix://") }

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
