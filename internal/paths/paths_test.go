package paths

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
			[]string{
				"/run/sandboxd/agent.sock", "/run/sandboxd/operator.sock", "/var/lib/sandboxd",
				"/etc/sandboxd/audit.key",
			},
		},
		{
			"a user has those of the login", 7,
			map[string]string{"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/u"},
			[]string{
				"/run/user/7/sandboxd/agent.sock", "/run/user/7/sandboxd/operator.sock",
				"/home/u/.local/state/sandboxd", "/home/u/.config/sandboxd/audit.key",
			},
		},
		{
			"a user who keeps these files elsewhere", 7,
			map[string]string{
				"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/u", "XDG_STATE_HOME": "/data/state",
				"XDG_CONFIG_HOME": "/data/config",
			},
			[]string{
				"/run/user/7/sandboxd/agent.sock", "/run/user/7/sandboxd/operator.sock",
				"/data/state/sandboxd", "/data/config/sandboxd/audit.key",
			},
		},
		{
			"a directory of the sockets that was named", 7,
			map[string]string{"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/u", "SANDBOXD_RUNTIME_DIR": "/r"},
			[]string{
				"/r/agent.sock", "/r/operator.sock", "/home/u/.local/state/sandboxd",
				"/home/u/.config/sandboxd/audit.key",
			},
		},
		{
			"without a login the sockets are in the private state", 7,
			map[string]string{"HOME": "/home/u"},
			[]string{
				"/home/u/.local/state/sandboxd/run/agent.sock",
				"/home/u/.local/state/sandboxd/run/operator.sock", "/home/u/.local/state/sandboxd",
				"/home/u/.config/sandboxd/audit.key",
			},
		},
		{
			"the variables win", 0,
			map[string]string{
				"SANDBOXD_SOCKET": "unix:///a/s", "SANDBOXD_OPERATOR_SOCKET": "/b/s",
				"SANDBOXD_STATE_DIR": "/c/",
			},
			[]string{"/a/s", "/b/s", "/c", "/c-key/audit.key"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := resolve(func(n string) string { return tt.env[n] }, tt.uid)
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
			_, err := resolve(func(n string) string { return tt.env[n] }, 7)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A socket that others may have put there is not connected to.
func TestM24_ADaemonOfTheLoginIsFoundWithoutXDGRuntimeDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agent.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	me := os.Geteuid()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, dir, socket string
		mode              os.FileMode
		uid               int
		found             bool
	}{
		{"our own", dir, "agent.sock", 0o700, me, true},
		{"one that others may read", dir, "agent.sock", 0o755, me, true},
		{"one that others may write", dir, "agent.sock", 0o757, me, false},
		{"one that the group may write", dir, "agent.sock", 0o770, me, false},
		{"of another user", dir, "agent.sock", 0o700, me + 1, me == 0},
		{"a link", link, "agent.sock", 0o700, me, false},
		{"no socket", dir, "operator.sock", 0o700, me, false},
		{"no directory", dir + "x", "agent.sock", 0o700, me, false},
	} {
		if err := os.Chmod(dir, tt.mode); err != nil {
			t.Fatal(err)
		}
		if got := first([]string{filepath.Join(tt.dir, tt.socket)}, tt.uid); (got != "") != tt.found {
			t.Errorf("%s: found %q, want found %t", tt.name, got, tt.found)
		}
	}
	uid := me
	if uid == 0 { // root has the place of the system
		uid = 1
	}
	defer func(of string) { logins = of }(logins)
	logins = t.TempDir()
	login := filepath.Join(logins, strconv.Itoa(uid), "sandboxd", "agent.sock")
	if err := errors.Join(os.MkdirAll(filepath.Dir(login), 0o700), os.WriteFile(login, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOME": "/no-home"}
	find := func() string {
		return clientSocket(func(name string) string { return env[name] }, uid, "SANDBOXD_SOCKET", "agent.sock")
	}
	if got := find(); got != login {
		t.Errorf("without XDG_RUNTIME_DIR: got %s, want %s", got, login)
	}
	env["XDG_RUNTIME_DIR"] = t.TempDir()
	if got := find(); got == login {
		t.Errorf("with another XDG_RUNTIME_DIR: got %s", got)
	}
}

func TestWhereClientsFindTheDaemon(t *testing.T) {
	env := map[string]string{"SANDBOXD_RUNTIME_DIR": "/run/x", "SANDBOXD_OPERATOR_SOCKET": "unix:///run/y/operator.sock"}
	getenv := func(name string) string { return env[name] }
	if got := AgentSocket(getenv); got != "/run/x/agent.sock" {
		t.Errorf("got %s", got)
	}
	if got := OperatorSocket(getenv); got != "/run/y/operator.sock" {
		t.Errorf("got %s", got)
	}
}

func TestNoSocketWhereOthersCanPutOne(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sandboxd"), 0o700); err != nil {
		t.Fatal(err)
	}
	planted := filepath.Join(dir, "sandboxd", "agent.sock")
	if err := os.WriteFile(planted, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"XDG_RUNTIME_DIR": dir, "HOME": dir, "SANDBOXD_STATE_DIR": dir + "/state",
		"SANDBOXD_KEY_DIR": dir + "/key",
	}
	uid := cmp.Or(os.Geteuid(), 1000) // root has a fixed place
	for _, tt := range []struct {
		mode os.FileMode
		used bool
	}{{0o700, true}, {0o777, false}, {0o775, false}} {
		if err := os.Chmod(filepath.Dir(planted), tt.mode); err != nil {
			t.Fatal(err)
		}
		got := clientSocket(func(n string) string { return env[n] }, uid, "SANDBOXD_SOCKET", "agent.sock")
		if (got == planted) != tt.used {
			t.Errorf("mode %o: got %s", tt.mode, got)
		}
	}
}
