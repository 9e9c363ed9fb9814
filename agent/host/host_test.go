package host

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// Whoever names a socket has a daemon of their own: none is started in its place, and none gets a key.
func TestNoDaemonIsStartedForASocketThatIsNamed(t *testing.T) {
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	program := "#!/bin/sh\necho \"$ANTHROPIC_API_KEY$OPENAI_API_KEY$CODEANY_API_KEY.\" >" + started + "\n"
	if err := os.WriteFile(filepath.Join(dir, "sandboxd"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for _, key := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEANY_API_KEY"} {
		t.Setenv(key, "secret")
	}
	places := map[string]string{"SANDBOXD_RUNTIME_DIR": filepath.Join(dir, "run")}
	env := func(name string) string { return places[name] }
	if _, err := Find(t.Context(), "/src", env, func(string) {}); err == nil {
		t.Error("a daemon that ends at once answers")
	}
	if text, err := os.ReadFile(started); err != nil || string(text) != ".\n" {
		t.Errorf("the daemon that is started has %q, %v", text, err)
	}
	_ = os.Remove(started)
	places["SANDBOXD_SOCKET"] = filepath.Join(dir, "named.sock")
	socket, err := Find(t.Context(), "/src", env, func(string) {})
	if err == nil || socket != places["SANDBOXD_SOCKET"] {
		t.Errorf("got %s, %v", socket, err)
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("a daemon was started although a socket is named")
	}
}

// What somebody has put in the place of the daemon's log is not written to, and nobody waits for it.
func TestTheLogOfTheDaemonIsItsOwn(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := os.WriteFile(filepath.Join(dir, "sandboxd"), []byte("#!/bin/sh\necho it ended\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(path string) error{
		"nothing": func(string) error { return nil },
		"a FIFO":  func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link":  func(path string) error { return os.Symlink(filepath.Join(dir, "other"), path) },
		"a file":  func(path string) error { return os.WriteFile(path, []byte("of the daemon before\n"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			run := t.TempDir()
			log := filepath.Join(run, "serve.log")
			if err := put(log); err != nil {
				t.Fatal(err)
			}
			env := func(name string) string { return map[string]string{"SANDBOXD_RUNTIME_DIR": run}[name] }
			if _, err := Find(t.Context(), "/src", env, func(string) {}); err == nil {
				t.Error("a daemon that ends at once answers")
			}
			text, err := os.ReadFile(log)
			if st, bad := os.Lstat(log); err != nil || bad != nil || !st.Mode().IsRegular() || string(text) != "it ended\n" {
				t.Errorf("the log says %q, %v, %v", text, err, bad)
			}
			if _, err := os.Lstat(filepath.Join(dir, "other")); err == nil {
				t.Error("it was written through a link")
			}
		})
	}
}
