package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The daemon would read its name as a list, and serve what is behind the colon, too.
func TestNoDaemonIsStartedForADirectoryWithAColon(t *testing.T) {
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	program := "#!/bin/sh\necho \"$SANDBOXD_WORKSPACE_ROOTS\" >" + started + "\n"
	if err := os.WriteFile(filepath.Join(dir, "sandboxd"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	env := func(name string) string {
		return map[string]string{"SANDBOXD_RUNTIME_DIR": filepath.Join(dir, "run")}[name]
	}
	_, err := Find(t.Context(), "/src:/home", env, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "/src:/home") {
		t.Errorf("the error is %v", err)
	}
	if text, err := os.ReadFile(started); err == nil {
		t.Errorf("a daemon was started for %s", text)
	}
}
