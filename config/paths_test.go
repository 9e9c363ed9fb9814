package config

import (
	"slices"
	"strings"
	"testing"
)

func TestPaths(t *testing.T) {
	for _, tt := range []struct {
		name string
		uid  int
		env  map[string]string
		want []string // agent socket, operator socket, state, key
	}{
		{
			"root has those of the system", 0,
			map[string]string{"XDG_RUNTIME_DIR": "/run/user/0", "HOME": "/root"},
			[]string{"/run/sandboxd/agent.sock", "/run/sandboxd/operator.sock", "/var/lib/sandboxd", "/etc/sandboxd/audit.key"},
		},
		{
			"a user has those of the login", 7,
			map[string]string{"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/u"},
			[]string{"/run/user/7/sandboxd/agent.sock", "/run/user/7/sandboxd/operator.sock", "/home/u/.local/state/sandboxd", "/home/u/.config/sandboxd/audit.key"},
		},
		{
			"without a login the sockets are in the private state", 7,
			map[string]string{"HOME": "/home/u"},
			[]string{"/home/u/.local/state/sandboxd/run/agent.sock", "/home/u/.local/state/sandboxd/run/operator.sock", "/home/u/.local/state/sandboxd", "/home/u/.config/sandboxd/audit.key"},
		},
		{
			"the variables win", 0,
			map[string]string{"SANDBOXD_SOCKET": "unix:///a/s", "SANDBOXD_OPERATOR_SOCKET": "/b/s", "SANDBOXD_STATE_DIR": "/c/"},
			[]string{"/a/s", "/b/s", "/c", "/c-key/audit.key"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := resolvePaths(func(n string) string { return tt.env[n] }, tt.uid)
			if err != nil {
				t.Fatal(err)
			}
			if got := []string{p.AgentSocket, p.OperatorSocket, p.StateDir, p.KeyFile}; !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPathsThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"no home", map[string]string{}, "set SANDBOXD_STATE_DIR or HOME"},
		{"a relative socket", map[string]string{"HOME": "/h", "SANDBOXD_SOCKET": "s"}, "not an absolute path"},
		{"a relative state", map[string]string{"HOME": "/h", "SANDBOXD_STATE_DIR": "s"}, "not an absolute path"},
		{"one socket for both roles", map[string]string{"HOME": "/h", "SANDBOXD_SOCKET": "/s", "SANDBOXD_OPERATOR_SOCKET": "/s"}, "approve their own"},
		{"the key with the log", map[string]string{"HOME": "/h", "SANDBOXD_STATE_DIR": "/s", "SANDBOXD_KEY_DIR": "/s/"}, "must not sign"},
		{"a socket that the kernel would cut", map[string]string{"HOME": "/h", "SANDBOXD_SOCKET": "/" + strings.Repeat("x", 107)}, "the kernel takes 107"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := resolvePaths(func(n string) string { return tt.env[n] }, 7)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A socket in a shared directory hides itself, never the directory.
func TestPrivateHidesNoMore(t *testing.T) {
	p, err := resolvePaths(func(n string) string {
		return map[string]string{"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/7", "SANDBOXD_SOCKET": "/tmp/a.sock"}[n]
	}, 7)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/run/user/7/sandboxd", "/h/.local/state/sandboxd", "/h/.config/sandboxd", "/tmp/a.sock", "/h/own.yaml"}
	if got := Private(p, "/h/own.yaml"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
