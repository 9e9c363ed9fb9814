package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/tests/pgtest"
	"github.com/sandboxd/sandboxd/tests/prebuilt"
)

// running is a daemon over a workspace of its own.
type running struct {
	t               testing.TB
	work, ws, home  string
	env             []string
	command         []string // nil is "sandboxd serve"
	uid             int      // of the daemon; 0 is that of the test
	cmd             *exec.Cmd
	log             *lockedBuffer
	agent, operator *client.Client
}

// newDaemon makes the places of a daemon, with config as its file if it is not
// empty, and starts it.
func newDaemon(t testing.TB, config string) *running {
	t.Helper()
	d := newPlaces(t, config)
	d.start()
	return d
}

// newPlaces is newDaemon that starts nothing.
func newPlaces(t testing.TB, config string) *running {
	t.Helper()
	work, err := newDir(bin, "go-")
	if err != nil {
		t.Fatal(err)
	}
	d := &running{t: t, work: work, ws: filepath.Join(work, "ws"), home: filepath.Join(work, "home"), log: &lockedBuffer{}}
	for _, dir := range []string{d.ws, d.home, filepath.Join(work, "run")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := prebuilt.State(bin, filepath.Join(work, "state")); err != nil {
		t.Fatal(err)
	}
	d.write("home/.ssh/id_rsa", "PLANTED-SECRET-KEY\n")
	d.write("home/.gitconfig", "[user]\n\tname = Agent\n\temail = agent@example.com\n[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n")
	d.env = []string{
		"HOME=" + d.home, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"SANDBOXD_SOCKET=" + filepath.Join(work, "run/a.sock"),
		"SANDBOXD_OPERATOR_SOCKET=" + filepath.Join(work, "run/o.sock"),
		"SANDBOXD_STATE_DIR=" + filepath.Join(work, "state"), "XDG_CONFIG_HOME=" + filepath.Join(work, "config"),
		"GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "GOPROXY=off",
	}
	if config != "" {
		d.write("config.yaml", config)
		d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(work, "config.yaml"))
	}
	if !strings.Contains(config, "roots:") {
		d.env = append(d.env, "SANDBOXD_WORKSPACE_ROOTS="+d.ws)
	}
	if os.Getenv(storetest.OverPostgres) == "postgres" { // every test here, over the database that daemons share
		d.env = append(d.env, "SANDBOXD_STORE_URL="+pgtest.URL(t))
	}
	d.agent = client.New(filepath.Join(work, "run/a.sock"))
	d.operator = client.New(filepath.Join(work, "run/o.sock"))
	t.Cleanup(func() {
		d.stop(os.Interrupt)
		os.RemoveAll(work)
	})
	return d
}

// unstarted leaves no state directory: no daemon was ever started here.
func (d *running) unstarted() {
	d.t.Helper()
	if err := os.RemoveAll(filepath.Join(d.work, "state")); err != nil {
		d.t.Fatal(err)
	}
}

// unserved makes a daemon that has not started serve only what is allowed.
func (d *running) unserved() {
	d.env = slices.DeleteFunc(d.env, func(v string) bool { return strings.HasPrefix(v, "SANDBOXD_WORKSPACE_ROOTS=") })
}

func (d *running) start() {
	d.t.Helper()
	command := d.command
	if command == nil {
		command = []string{filepath.Join(bin, "sandboxd"), "serve"}
	}
	d.cmd = exec.Command(command[0], command[1:]...)
	d.cmd.Dir, d.cmd.Env = d.ws, d.env
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if d.uid != 0 {
		d.cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: uint32(d.uid), Gid: uint32(d.uid)},
		}
	}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	if !waitFor(func() bool { return d.agent.Do(context.Background(), "GET", "/status", nil, nil) == nil }) {
		d.t.Fatalf("the daemon does not answer:\n%s", d.log)
	}
}

// stop ends the daemon, if it runs, and waits for it.
func (d *running) stop(sig os.Signal) {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(sig) // it may have ended by itself
	_ = d.cmd.Wait()
	d.cmd = nil
}

// write makes a file below the places of the daemon.
func (d *running) write(name, text string) {
	d.t.Helper()
	path := filepath.Join(d.work, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if d.uid != 0 {
		if err := os.Lchown(path, d.uid, d.uid); err != nil {
			d.t.Fatal(err)
		}
	}
}

// session opens one and returns its id.
func (d *running) session() string {
	d.t.Helper()
	var s client.Session
	if err := d.agent.Do(d.t.Context(), "POST", "/sessions", map[string]any{}, &s); err != nil {
		d.t.Fatal(err)
	}
	return s.ID
}

// call runs one tool and fails the test if the call is not answered.
func (d *running) call(session, name, args string) client.Result {
	d.t.Helper()
	r, err := d.agent.Call(d.t.Context(), session, name, json.RawMessage(args))
	if err != nil {
		d.t.Fatalf("%s %s: %v\n%s", name, args, err, d.log)
	}
	return r
}

// lockedBuffer is written by a process and read by a test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
