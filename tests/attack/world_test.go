package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/prebuilt"
)

// secret is in every place that nobody may read.
const secret = "PLANTED-SECRET-7f3a"

// marker is the time that every process sleeps that must not stay: another run beside this
// one has its own, and as long, so that neither is found in the other.
var marker = fmt.Sprintf("98765.%d", time.Now().UnixNano())

// world is a host with a daemon: a workspace, a home with secrets, a directory outside,
// and listeners that must not hear anything.
type world struct {
	t                   *testing.T
	dir                 string
	ws, home, outside   string
	uid                 int // of the daemon and of its agent
	config              string
	environment         []string
	cmd                 *exec.Cmd
	log                 lockedBuffer
	agent, operator     *client.Client
	tcp                 net.Listener
	udp                 net.PacketConn
	hits                atomic.Int64
	asked               atomic.Int64 // questions that were refused
	before              map[string]string
	made                string // what inodes said of the workspace when it was made
	sessions            []string
	answer              func(question) map[string]any // nil refuses
	stopPerson, goneAll func()
}

// question is one that waits for a person.
type question struct {
	ID       string          `json:"id"`
	Session  string          `json:"session_id"`
	ToolName string          `json:"tool_name"`
	Args     json.RawMessage `json:"args"`

	raw json.RawMessage
}

// newWorld makes the places, but starts nothing.
func newWorld(t *testing.T, uid int, config string) *world {
	t.Helper()
	dir, err := os.MkdirTemp(bin, "w-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, uid: uid, config: config}
	// Beside the workspace lies one directory that a person may open; all else is further away.
	beside := dir + "/work"
	w.ws, w.home, w.outside = beside+"/ws", dir+"/home", dir+"/outside"
	for _, d := range []string{beside, w.ws, beside + "/other", w.home, w.outside, dir + "/run", dir + "/config"} {
		w.must(os.Mkdir(d, 0o755))
	}
	w.must(os.Chmod(dir+"/run", 0o700))
	w.must(prebuilt.State(bin, dir+"/state"))
	for name, text := range map[string]string{
		w.home + "/.ssh/id_rsa":            secret + "\n",
		w.home + "/.aws/credentials":       secret + "\n",
		w.home + "/.config/gh/hosts.yml":   secret + "\n",
		w.home + "/.bash_history":          secret + "\n",
		w.home + "/.gitconfig":             "[user]\n\tname = A\n\temail = a@example.com\n[safe]\n\tdirectory = *\n",
		w.home + "/notes.txt":              "notes\n",
		beside + "/other/a.txt":            "outside\n",
		w.outside + "/a.txt":               "outside\n",
		w.outside + "/dir/b.txt":           "outside\n",
		w.outside + "/run.sh":              "#!/bin/sh\necho outside\n",
		w.dir + "/config/placeholder.conf": "",
	} {
		w.file(name, text, 0o644)
	}
	w.must(os.Chmod(w.outside+"/run.sh", 0o755))
	w.fresh()
	w.own(dir)
	w.agent, w.operator = client.New(w.socket("a")), client.New(w.socket("o"))
	if uid != os.Getuid() {
		w.become()
	}
	t.Cleanup(w.end)
	return w
}

// become lets the clients be processes of the user of the daemon.
func (w *world) become() {
	w.t.Helper()
	self, err := os.Executable()
	w.must(err)
	program := filepath.Join(bin, "forward") // the test's own is where the user may not go
	if _, err := os.Stat(program); err != nil {
		b, err := os.ReadFile(self)
		w.must(err)
		w.must(os.WriteFile(program, b, 0o755))
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), forwardEnv+"="+w.dir+"/run")
	cmd.SysProcAttr = w.credential()
	stdin, err := cmd.StdinPipe()
	w.must(err)
	cmd.Stderr = &w.log
	w.must(cmd.Start())
	w.t.Cleanup(func() { stdin.Close(); _ = cmd.Wait() })
	for _, name := range []string{"agent", "operator"} {
		w.until("the clients are there", func() bool { _, err := os.Stat(w.socket(name)); return err == nil })
	}
	w.agent, w.operator = client.New(w.socket("agent")), client.New(w.socket("operator"))
}

// client is the socket that a client of the daemon's user connects to: "a" or "o".
func (w *world) client(name string) string {
	if w.uid != os.Getuid() {
		name = map[string]string{"a": "agent", "o": "operator"}[name]
	}
	return w.socket(name)
}

// credential is the user of the daemon.
func (w *world) credential() *syscall.SysProcAttr {
	if w.uid == os.Getuid() {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}}
}

func (w *world) socket(name string) string { return w.dir + "/run/" + name + ".sock" }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// check is must for other goroutines than that of the test.
func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

// file writes one, with its directories.
func (w *world) file(path, text string, mode os.FileMode) {
	w.t.Helper()
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, []byte(text), mode))
}

// own gives a tree to the user of the daemon.
func (w *world) own(root string) {
	if w.uid == os.Getuid() {
		return
	}
	w.must(filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, w.uid, w.uid)
	}))
}

// fresh makes the workspace anew, if anybody has changed it: a repository with one commit,
// work that is not committed, and a package in it.
func (w *world) fresh() {
	w.t.Helper()
	if w.made != "" && w.made == w.inodes() {
		return
	}
	w.must(clearDir(w.ws))
	for name, text := range map[string]string{
		"README.md": "# small\n", "src/a.go": "package a\n", "src/b.go": "package a\n", "pkg/x/c.txt": "c\n",
		"deploy.sh": "#!/bin/sh\necho harmless\n", "Makefile": "all:\n\t@echo harmless\n",
	} {
		w.file(filepath.Join(w.ws, name), text, 0o644)
	}
	w.must(os.Chmod(w.ws+"/deploy.sh", 0o755))
	w.own(w.ws)
	w.git("init", "-q", "-b", "main", "--template=")
	w.git("add", ".")
	w.git("commit", "-q", "-m", "first")
	w.made = w.inodes()
}

// git is git of the user of the daemon in the workspace.
func (w *world) git(args ...string) {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", w.ws, "-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), "HOME="+w.home), w.credential()
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// inodes tells one state of the workspace from another: whatever is done to a file changes its ctime.
func (w *world) inodes() string {
	w.t.Helper()
	var b strings.Builder
	w.must(filepath.WalkDir(w.ws, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			st := info.Sys().(*syscall.Stat_t)
			fmt.Fprintln(&b, p, st.Ino, st.Ctim)
		}
		return err
	}))
	return b.String()
}

func clearDir(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if err == nil {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	return err
}

// start starts the daemon, the listeners of the host, and a person who refuses.
func (w *world) start() {
	w.t.Helper()
	w.listen()
	w.serve()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.person(ctx) }()
	w.stopPerson = func() { cancel(); <-done }
}

// serve starts the daemon and waits until it answers.
func (w *world) serve() {
	w.t.Helper()
	if err := w.try(); err != nil {
		w.t.Fatal(err)
	}
}

// try is serve for a daemon that may refuse to start; the error has its log.
func (w *world) try() error {
	w.cmd = exec.Command(filepath.Join(bin, "sandboxd"), "serve")
	w.cmd.Dir = w.ws
	w.cmd.Env = append([]string{
		"HOME=" + w.home, "PATH=" + bin + ":" + os.Getenv("PATH"), "TOKEN=" + secret,
		"SANDBOXD_SOCKET=" + w.socket("a"), "SANDBOXD_OPERATOR_SOCKET=" + w.socket("o"),
		"SANDBOXD_STATE_DIR=" + w.dir + "/state", "XDG_CONFIG_HOME=" + w.dir + "/config",
		"SANDBOXD_WORKSPACE_ROOTS=" + w.ws,
	}, w.environment...)
	if w.config != "" {
		w.file(w.dir+"/config.yaml", w.config, 0o600)
		w.own(w.dir + "/config.yaml")
		w.cmd.Env = append(w.cmd.Env, "SANDBOXD_CONFIG="+w.dir+"/config.yaml")
	}
	w.cmd.Stdout, w.cmd.Stderr = &w.log, &w.log
	w.cmd.SysProcAttr = w.credential()
	if err := w.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	cmd := w.cmd
	go func() { _ = cmd.Wait(); close(ended) }()
	w.goneAll = func() { <-ended }
	for limit := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		if w.operator.Do(w.t.Context(), "GET", "/status", nil, nil) == nil {
			return nil
		}
		select {
		case <-ended:
			w.cmd = nil
			return fmt.Errorf("the daemon ended: %s", w.log.String())
		default:
		}
		if time.Now().After(limit) {
			return fmt.Errorf("the daemon does not answer: %s", w.log.String())
		}
	}
}

func (w *world) signal(sig os.Signal) {
	if w.cmd != nil {
		_ = w.cmd.Process.Signal(sig)
		w.goneAll()
		w.cmd = nil
	}
}

func (w *world) end() {
	if w.stopPerson != nil {
		w.stopPerson()
	}
	w.signal(syscall.SIGTERM)
	if w.tcp != nil {
		w.tcp.Close()
		w.udp.Close()
	}
	_ = os.RemoveAll(w.dir)
	if w.t.Failed() {
		w.t.Logf("the daemon's log:\n%s", w.log.String())
	}
}

func (w *world) listen() {
	var err error
	w.tcp, err = net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	w.udp, err = net.ListenPacket("udp", "127.0.0.1:0")
	w.must(err)
	abstract, err := net.Listen("unix", "@sandboxd-attack-"+filepath.Base(w.dir))
	w.must(err)
	outside, err := net.Listen("unix", w.outside+"/service.sock")
	w.must(err)
	w.must(os.Chmod(w.outside+"/service.sock", 0o666))
	for _, l := range []net.Listener{w.tcp, abstract, outside} {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				w.hits.Add(1)
				c.Close()
			}
		}()
	}
	w.t.Cleanup(func() { abstract.Close(); outside.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			if _, _, err := w.udp.ReadFrom(b); err != nil {
				return
			}
			w.hits.Add(1)
		}
	}()
}

// person answers every question, by default with no.
func (w *world) person(ctx context.Context) {
	for ctx.Err() == nil {
		var list []json.RawMessage
		if w.operator.Do(ctx, "GET", "/approvals", nil, &list) != nil || len(list) == 0 {
			time.Sleep(10 * time.Millisecond) // polls, as a program without events would
			continue
		}
		for _, raw := range list {
			q := question{raw: raw}
			w.check(json.Unmarshal(raw, &q))
			in := map[string]any{"approved": false, "reason": "no"}
			if w.answer != nil {
				in = w.answer(q)
			}
			if in == nil {
				continue
			}
			if w.operator.Do(ctx, "POST", "/approvals/"+q.ID, in, nil) == nil {
				w.asked.Add(1)
			}
		}
	}
}

// fill puts the places of the world into a text.
func (w *world) fill(s string) string {
	_, tcp, _ := net.SplitHostPort(addr(w.tcp))
	udp := ""
	if w.udp != nil {
		_, udp, _ = net.SplitHostPort(w.udp.LocalAddr().String())
	}
	pid := "0"
	if w.cmd != nil {
		pid = strconv.Itoa(w.cmd.Process.Pid)
	}
	return strings.NewReplacer("{ws}", w.ws, "{home}", w.home, "{outside}", w.outside, "{dir}", w.dir, "{tcp}", tcp,
		"{udp}", udp, "{pid}", pid, "{marker}", marker, "{abstract}", "sandboxd-attack-"+filepath.Base(w.dir),
		"{bin}", bin).Replace(s)
}

func addr(l net.Listener) string {
	if l == nil {
		return "127.0.0.1:0"
	}
	return l.Addr().String()
}

// session opens one.
func (w *world) session() string {
	w.t.Helper()
	var s client.Session
	w.must(w.agent.Do(w.t.Context(), "POST", "/sessions", map[string]any{"cwd": w.ws}, &s))
	w.sessions = append(w.sessions, s.ID)
	return s.ID
}

func (w *world) endSessions() {
	for _, id := range w.sessions {
		_ = w.agent.Do(w.t.Context(), "DELETE", "/sessions/"+id, nil, nil)
	}
	w.sessions = nil
}

// call runs one tool and gives the answer.
func (w *world) call(session, tool, args string) client.Result {
	w.t.Helper()
	r, err := w.agent.Call(w.t.Context(), session, tool, json.RawMessage(args))
	if err != nil {
		w.t.Fatalf("%s %s: %v\n%s", tool, args, err, w.log.String())
	}
	return r
}

// bash is the JSON of a command line.
func bash(command string) string {
	b, _ := json.Marshal(map[string]any{"command": command, "timeout": 120_000})
	return string(b)
}

// http is a raw client of a socket, for what the package client does not send.
func (w *world) http(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", w.client(socket))
		},
		DisableKeepAlives: true,
	}, Timeout: 5 * time.Minute}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
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
