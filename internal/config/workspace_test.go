package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/paths"
)

func TestFileInTheWorkspaceIsRefused(t *testing.T) {
	h := newHome(t)
	file := h.write(h.dir, "log: {level: debug}\n")
	if _, err := Load(Source{File: file, Env: h.getenv, Dir: h.dir}); err == nil ||
		!strings.Contains(err.Error(), "which agents can write") {
		t.Errorf("a configuration that agents can write: got %v", err)
	}
	c, err := Load(Source{Env: h.getenv, Dir: h.dir})
	if err != nil || c.File != "" || c.Log.Level != "info" {
		t.Errorf("a file in the workspace was found without being named: %+v, %v", c, err)
	}
}

// TestAProjectIsItsOnlyRoot: a session in a project writes that, and what the configuration
// says of secrets, limits and the daemon's places holds there too.
func TestAProjectIsItsOnlyRoot(t *testing.T) {
	h := newHome(t)
	project := filepath.Join(filepath.Dir(h.dir), "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := h.load("sandbox:\n  deniedPaths: [" + project + "/.env]\n  limits: {wallSeconds: 7}\n")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Project(project)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.AllowedWritePaths, project) || slices.Contains(s.AllowedWritePaths, h.dir) {
		t.Errorf("writable: %q", s.AllowedWritePaths)
	}
	for _, want := range []string{project + "/.env", c.Paths.StateDir, c.File} {
		if !slices.Contains(s.DeniedPaths, want) {
			t.Errorf("%s is not denied: %q", want, s.DeniedPaths)
		}
	}
	if s.Limits.WallSeconds != 7 || !slices.Equal(c.Workspace.Roots, []string{h.dir}) ||
		slices.Contains(c.Sandbox.AllowedWritePaths, project) {
		t.Errorf("limits %+v, and of the configuration %q, %q", s.Limits, c.Workspace.Roots, c.Sandbox.AllowedWritePaths)
	}
	if err := os.WriteFile(project+"/notify.sh", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"sandbox: {deniedPaths: [" + project + "]}":             "denied",
		"sandbox: {allowedReadPaths: [" + h.dir + "]}":          "read",
		"policy: {dirs: [" + project + "]}":                     "agents can write",
		"hooks: {stop: [{command: " + project + "/notify.sh}]}": "agents can write",
	} {
		c, err := h.load(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if _, err := c.Project(project); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// A socket in a shared directory hides itself, never the directory.
func TestPrivateHidesNoMore(t *testing.T) {
	p, err := paths.Resolve(func(n string) string {
		return map[string]string{
			"SANDBOXD_RUNTIME_DIR": "/run/user/7/sandboxd", "SANDBOXD_STATE_DIR": "/h/state",
			"SANDBOXD_KEY_DIR": "/h/key", "SANDBOXD_SOCKET": "/tmp/a.sock",
		}[n]
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/run/user/7/sandboxd", "/h/state", "/h/key", "/tmp/a.sock", "/h/own.yaml"}
	if got := private(p, "/h/own.yaml"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
