package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/prebuilt"
)

// Build makes the programs of both modules in a directory, for a TestMain. Not below /tmp: that is private in a sandbox.
func Build() (bin string, err error) {
	if bin, err = os.MkdirTemp("/var/tmp", "sandboxd-agent-test-"); err != nil {
		return "", err
	}
	if err := errors.Join(prebuilt.Programs(bin), os.Chmod(bin, 0o755)); err != nil {
		return bin, err
	}
	if raced { // it looks for races, too
		cmd := exec.Command("go", "build", "-race", "-o", bin, "../cmd/sandboxd-agent")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return bin, fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	return bin, nil
}

// Daemon is a daemon over a workspace of its own.
type Daemon struct {
	t               testing.TB
	Work, Workspace string
	Env             []string // of the daemon and of agents
	Agent, Operator *client.Client
	Log             *Buffer
	bin             string
	cmd             *exec.Cmd
}

// NewDaemon makes the places of a daemon, with config as its file if it is not empty, and
// starts it.
func NewDaemon(t testing.TB, bin, config string) *Daemon {
	t.Helper()
	work, err := os.MkdirTemp(bin, "d-")
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{t: t, Work: work, Workspace: filepath.Join(work, "ws"), Log: &Buffer{}, bin: bin}
	d.Write("home/.gitconfig", "[user]\n\tname = A\n\temail = a@example.com\n[safe]\n\tdirectory = *\n")
	for _, dir := range []string{d.Workspace, filepath.Join(work, "run")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := prebuilt.State(bin, filepath.Join(work, "state")); err != nil {
		t.Fatal(err)
	}
	d.Env = []string{
		"HOME=" + filepath.Join(work, "home"), "PATH=" + bin + ":" + os.Getenv("PATH"),
		"SANDBOXD_SOCKET=" + filepath.Join(work, "run/a.sock"),
		"SANDBOXD_OPERATOR_SOCKET=" + filepath.Join(work, "run/o.sock"),
		"SANDBOXD_STATE_DIR=" + filepath.Join(work, "state"), "XDG_CONFIG_HOME=" + filepath.Join(work, "config"),
		"GOTOOLCHAIN=local", "GOPROXY=off",
	}
	if cache := os.Getenv("GOCACHE"); cache != "" {
		d.Env = append(d.Env, "GOCACHE="+cache)
	}
	if config != "" {
		d.Write("config.yaml", config)
		d.Env = append(d.Env, "SANDBOXD_CONFIG="+filepath.Join(work, "config.yaml"))
	}
	if !strings.Contains(config, "roots:") {
		d.Env = append(d.Env, "SANDBOXD_WORKSPACE_ROOTS="+d.Workspace)
	}
	d.Agent = client.New(filepath.Join(work, "run/a.sock"))
	d.Operator = client.New(filepath.Join(work, "run/o.sock"))
	t.Cleanup(func() {
		d.Stop(os.Interrupt)
		os.RemoveAll(work)
	})
	d.Start()
	return d
}

// Start starts the daemon, and waits until it answers.
func (d *Daemon) Start() {
	d.t.Helper()
	d.cmd = exec.Command(filepath.Join(d.bin, "sandboxd"), "serve")
	d.cmd.Dir, d.cmd.Env, d.cmd.Stdout, d.cmd.Stderr = d.Workspace, d.Env, d.Log, d.Log
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.Eventually("the daemon answers", func() bool {
		return d.Agent.Do(context.Background(), "GET", "/status", nil, nil) == nil
	})
}

// Stop ends the daemon, if it runs, and waits for it.
func (d *Daemon) Stop(sig os.Signal) {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(sig) // it may have ended by itself
	_ = d.cmd.Wait()
	d.cmd = nil
}

// Eventually waits for what another process does.
func (d *Daemon) Eventually(what string, ok func() bool) {
	d.t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	d.t.Fatalf("never: %s\n%s", what, d.Log)
}

// Write makes a file below Work.
func (d *Daemon) Write(name, text string) {
	d.t.Helper()
	path := filepath.Join(d.Work, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// Read reads a file below Work.
func (d *Daemon) Read(name string) string {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.Work, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

// Waiting waits for a question to a person and returns its id.
func (d *Daemon) Waiting() (id string) {
	d.t.Helper()
	d.Eventually("a question waits", func() bool {
		var list []struct {
			ID string `json:"id"`
		}
		err := d.Operator.Do(context.Background(), "GET", "/approvals", nil, &list)
		if err == nil && len(list) > 0 {
			id = list[0].ID
		}
		return id != ""
	})
	return id
}

// Decide answers a question.
func (d *Daemon) Decide(id string, approved bool) {
	d.t.Helper()
	in := map[string]any{"approved": approved}
	if err := d.Operator.Do(context.Background(), "POST", "/approvals/"+id, in, nil); err != nil {
		d.t.Error(err)
	}
}

// Run is an agent that runs.
type Run struct {
	*exec.Cmd
	Out, Err *Buffer
}

// Command prepares sandboxd-agent in the workspace, with its model there.
func (d *Daemon) Command(m *Model, args ...string) *Run {
	r := &Run{exec.Command(filepath.Join(d.bin, "sandboxd-agent"), args...), &Buffer{}, &Buffer{}}
	r.Dir, r.Stdout, r.Stderr = d.Workspace, r.Out, r.Err
	r.Env = append([]string{"CODEANY_API_KEY=sk-test-key", "CODEANY_BASE_URL=" + m.URL}, d.Env...)
	return r
}

// Finish runs it to its end, and returns its exit code.
func (r *Run) Finish() int {
	_ = r.Run() // the code says it
	return r.ProcessState.ExitCode()
}

// Messages are what it wrote with --json, of these types; none is all.
func (r *Run) Messages(t testing.TB, types ...string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(r.Out.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for _, want := range types {
			if m["type"] == want {
				all = append(all, m)
			}
		}
		if len(types) == 0 {
			all = append(all, m)
		}
	}
	return all
}

// Result is the last line.
func (r *Run) Result(t testing.TB) map[string]any {
	t.Helper()
	all := r.Messages(t)
	if len(all) == 0 || all[len(all)-1]["type"] != "result" {
		t.Fatalf("the last line is no result:\n%s\n%s", r.Out, r.Err)
	}
	return all[len(all)-1]
}

// Buffer is written by a process and read by a test.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
