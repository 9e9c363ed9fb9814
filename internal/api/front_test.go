package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// call starts a call of Wait; its answer comes on the channel.
func (w *world) call(id string) <-chan answer {
	out := make(chan answer, 1)
	go func() { out <- w.do(tool.RoleAgent, "POST", "/sessions/"+id+"/calls", `{"tool":"Wait"}`) }()
	return out
}

func ended(a answer) (s tool.Status, message string) {
	var r tool.Result
	_ = json.Unmarshal(a.Data, &r)
	if r.Error != nil {
		message = r.Error.Msg
	}
	return r.Status, message
}

func TestAStopLetsCallsFinish(t *testing.T) {
	w := newWorld(t)
	running := w.call(w.session(tool.RoleAgent))
	w.running(1)
	w.stop(nil)
	for {
		c, err := net.Dial("unix", w.paths[tool.RoleAgent])
		if err != nil {
			break // nobody is let in any more
		}
		c.Close()
	}
	close(w.hold)
	if s, _ := ended(<-running); s != tool.StatusSuccess {
		t.Errorf("got %s", s)
	}
	for range 2 {
		must(t, <-w.done)
	}
}

func TestAStopEndsWhatOutlastsTheGrace(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.StopGrace = 0 })
	running := w.call(w.session(tool.RoleAgent))
	w.running(1)
	w.stop(nil)
	if s, msg := ended(<-running); s != tool.StatusError || !strings.Contains(msg, "cancelled") {
		t.Errorf("got %s %q", s, msg)
	}
}

func TestStopAllHasNoGrace(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.StopGrace = time.Hour })
	running := w.call(w.session(tool.RoleAgent))
	w.running(1)
	a := w.do(tool.RoleOperator, "POST", "/stop-all", "")
	if got := string(a.Data); got != `{"stopping":true,"cancelled":1}` {
		t.Errorf("got %s", got)
	}
	if s, msg := ended(<-running); s != tool.StatusError || !strings.Contains(msg, ErrStopAll.Error()) {
		t.Errorf("got %s %q", s, msg)
	}
	w.stop(ErrStopAll)
	for range 2 {
		must(t, <-w.done)
	}
}

// A request ends on the server that it began on; the next has the new one.
func TestSwapLeavesRunningRequestsAlone(t *testing.T) {
	w := newWorld(t)
	id := w.session(tool.RoleAgent)
	running := w.call(id)
	w.running(1)
	next := w.opts
	next.MaxMode, next.Mode = "plan", "plan"
	w.front.Swap(New(next))
	if a := w.do(tool.RoleAgent, "POST", "/sessions", `{"mode":"auto"}`); a.Error.Code != "mode_not_allowed" {
		t.Errorf("the old configuration answers: %s", a.body)
	}
	close(w.hold)
	if s, _ := ended(<-running); s != tool.StatusSuccess {
		t.Errorf("got %s", s)
	}
}

func TestAnAccountHasLimits(t *testing.T) {
	t.Run("of requests under way", func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Limits.Concurrent = 1 })
		running := w.call(w.session(tool.RoleAgent))
		w.running(1)
		a := w.do(tool.RoleAgent, "GET", "/healthz", "")
		if a.status != 429 || a.Error.Code != "too_many_requests" || a.header.Get("Retry-After") != "1" {
			t.Errorf("got %d %s, retry after %q", a.status, a.Error.Code, a.header.Get("Retry-After"))
		}
		if a := w.do(tool.RoleOperator, "GET", "/healthz", ""); a.status != 200 {
			t.Errorf("an operator is kept out: %d", a.status)
		}
		close(w.hold)
		if s, _ := ended(<-running); s != tool.StatusSuccess {
			t.Errorf("got %s", s)
		}
	})
	t.Run("of requests in a second, that a reload does not reset", func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Limits.PerSecond = 1 })
		// One passes at once. However slow the machine, of many sent together some
		// are too many.
		refused := 0
		answers := make(chan answer, 100)
		for range cap(answers) {
			go func() { answers <- w.do(tool.RoleAgent, "GET", "/healthz", "") }()
			w.front.Swap(New(w.opts))
		}
		for range cap(answers) {
			a := <-answers
			if a.status == 429 {
				refused++
				if a.Error.Code != "rate_limited" || a.header.Get("Retry-After") == "" {
					t.Errorf("got %s, retry after %q", a.Error.Code, a.header.Get("Retry-After"))
				}
			}
		}
		if refused == 0 {
			t.Error("nothing was refused")
		}
	})
}

// Half a request does not hold its place; a call that takes longer than a body
// may is not disturbed.
func TestABodyMustArriveInTime(t *testing.T) {
	w := newWorld(t)
	if w.front.body != 30*time.Second || w.front.take != 30*time.Second {
		t.Errorf("a body has %v, a reader %v for a piece", w.front.body, w.front.take)
	}
	w.front.body = 3 * time.Second // which also the two requests before have
	id := w.session(tool.RoleAgent)
	running := w.call(id)
	w.running(1)
	c, err := net.Dial("unix", w.paths[tool.RoleAgent])
	must(t, err)
	defer c.Close()
	_, err = c.Write([]byte("POST /sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"mode"))
	must(t, err)
	must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	text, err := io.ReadAll(c) // until the daemon hangs up
	must(t, err)
	if !strings.Contains(string(text), " 408 ") || !strings.Contains(string(text), "request_timeout") {
		t.Errorf("got %s", text)
	}
	close(w.hold)
	if s, msg := ended(<-running); s != tool.StatusSuccess {
		t.Errorf("the long call: %s %s", s, msg)
	}
}

// lines are what is logged.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// The log has an error for what fails here, and none for a client that leaves.
func TestAClientThatLeavesIsNoError(t *testing.T) {
	logged, begun := make(lines, 1000), make(chan struct{})
	w := newWorld(t, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Parts = append(o.Parts, part.Part{Routes: []route.Route{
			{Pattern: "GET /waits", Role: tool.RoleOperator, Handle: func(r *http.Request) (any, error) {
				close(begun)
				<-r.Context().Done()
				return nil, fmt.Errorf("read the rows: %w", r.Context().Err())
			}},
			{Pattern: "GET /fails", Role: tool.RoleOperator, Handle: func(*http.Request) (any, error) {
				return nil, errors.New("broken")
			}},
		}})
	})
	c, err := net.Dial("unix", w.paths[tool.RoleOperator])
	must(t, err)
	_, err = c.Write([]byte("GET /waits HTTP/1.1\r\nHost: x\r\n\r\n"))
	must(t, err)
	<-begun
	must(t, c.Close())
	line := func(path string) string {
		for {
			if one := <-logged; strings.Contains(one, "path="+path) {
				return one
			}
		}
	}
	if got := line("/waits"); !strings.Contains(got, "level=DEBUG") || !strings.Contains(got, "client left") {
		t.Errorf("a client that leaves: %s", got)
	}
	w.do(tool.RoleOperator, "GET", "/fails", "")
	if got := line("/fails"); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "status=500") {
		t.Errorf("a failure: %s", got)
	}
}

func TestListenTakesOverNothingThatLives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	path := filepath.Join(dir, "s")
	first, err := Listen(path, Access{})
	must(t, err)
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if _, err := Listen(path, Access{}); !refusedFor(err, "already_running", "another daemon answers on "+path) {
		t.Errorf("got %v", err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	must(t, first.Close())
	second, err := Listen(path, Access{}) // left over, as after a crash
	must(t, err)
	must(t, second.Close())
	must(t, os.WriteFile(path, []byte("kept"), 0o600))
	if _, err := Listen(path, Access{}); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("got %v", err)
	}
	must(t, os.Remove(path))
	must(t, os.Chmod(dir, 0o777))
	if _, err := Listen(path, Access{}); !refusedFor(err, "runtime_dir_unsafe", "only uid") {
		t.Errorf("got %v", err)
	}
}

// refusedFor reports whether an error has a code, and words in its message.
func refusedFor(err error, code, words string) bool {
	e, ok := errors.AsType[*tool.Error](err)
	return ok && e.Code == code && strings.Contains(e.Msg, words)
}

// A socket with a group is open to that group alone, and the group can reach it.
func TestASocketOfAGroup(t *testing.T) {
	base := t.TempDir()
	must(t, os.Chmod(filepath.Dir(base), 0o755))
	must(t, os.Chmod(base, 0o755))
	dir := filepath.Join(base, "run")
	us := Access{Group: "us", GID: os.Getgid()}
	for path, who := range map[string]Access{filepath.Join(dir, "a"): us, filepath.Join(dir, "o"): {}} {
		l, err := Listen(path, who)
		must(t, err)
		defer l.Close()
		want := os.FileMode(0o600)
		if who == us {
			want = 0o660
		}
		info, err := os.Stat(path)
		must(t, err)
		if got := info.Mode().Perm(); got != want || int(info.Sys().(*syscall.Stat_t).Gid) != os.Getgid() {
			t.Errorf("%s: mode %#o, want %#o", path, got, want)
		}
		if err := OfGroup(l, who); err != nil {
			t.Errorf("%s is taken for one of another group: %v", path, err)
		}
		err = OfGroup(l, Access{Group: "them", GID: os.Getgid() + 1})
		if !refusedFor(err, "socket_of_another_group", path) {
			t.Errorf("%s is taken for one of them: %v", path, err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("the directory has mode %v (%v), want 0711", info.Mode(), err)
	}
	must(t, os.Chmod(base, 0o700))
	_, err := Listen(filepath.Join(dir, "b"), Access{Group: "them", GID: os.Getgid() + 1})
	if !refusedFor(err, "socket_unreachable", "cannot reach sockets in "+dir+": "+base+" has mode 0700") {
		t.Errorf("below a closed directory: got %v", err)
	}
}

// A daemon whose user is no member of the group cannot give a socket to it, and leaves none.
func TestASocketForAGroupOfOthers(t *testing.T) {
	needs.Root(t, "to be a user without rights")
	const uid, gid = 64101, 64102
	base := t.TempDir()
	must(t, os.Chmod(filepath.Dir(base), 0o755))
	must(t, os.Chmod(base, 0o755))
	dir := filepath.Join(base, "run")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Chown(dir, uid, -1))
	path := filepath.Join(dir, "a")
	var err error
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
			err = errno
			return
		}
		_, err = Listen(path, Access{Group: "them", GID: gid})
	})
	done.Wait()
	if !refusedFor(err, "group_not_given", fmt.Sprintf("uid %d cannot give %s to the group them", uid, path)) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// given is a socket as a service manager leaves it to its child.
func given(t *testing.T, path string, mode os.FileMode) int {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	must(t, os.Chmod(path, mode))
	f, err := l.File()
	must(t, err)
	defer f.Close()
	fd, err := unix.Dup(int(f.Fd()))
	must(t, err)
	return fd
}

func TestInheritedSocketsAreChecked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := inherit(given(t, path, 0o660), "agent")
	must(t, err)
	defer l.Close()
	if l.Addr().String() != path {
		t.Errorf("got %s", l.Addr())
	}
	_, err = inherit(given(t, path+"2", 0o666), "agent")
	if !refusedFor(err, "socket_open_to_all", "every user could call") {
		t.Errorf("got %v", err)
	}
}

func TestInheritedReadsTheVariables(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	for _, tt := range []struct{ name, pid, fds, names, want string }{
		{"none", "", "", "", ""},
		{"of another process", "1", "2", "agent:operator", ""},
		{"no number", pid, "many", "agent", "number of sockets"},
		{"fewer names", pid, "2", "agent", "names 1 sockets"},
		{"an unknown name", pid, "1", "http", "one agent and one operator"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"LISTEN_PID": tt.pid, "LISTEN_FDS": tt.fds, "LISTEN_FDNAMES": tt.names}
			got, err := Inherited(func(k string) string { return env[k] },
				func(k string) error { delete(env, k); return nil })
			if len(got) > 0 || (err == nil) != (tt.want == "") || err != nil &&
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v", got, err)
			}
			if tt.pid == pid && len(env) > 0 {
				t.Errorf("children would see %v", env)
			}
		})
	}
}
