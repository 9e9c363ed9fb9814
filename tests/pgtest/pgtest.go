// Package pgtest starts a real PostgreSQL for tests. It runs as an ordinary user in its own
// directory. Only a socket there reaches it.
//
//	url := pgtest.URL(t)      // an empty database of a server that all tests of the process share
//	s := pgtest.Start(t)      // a server of this test, which may be killed
//
// Without the package postgresql of the distribution, package needs skips or fails the test. The
// shared server stops when the process of the tests ends, however that ends, and a server of Start
// with its test. Each deletes its directory then, if it ran: a server that was killed and not run
// again leaves it.
//
// faults.go has what may go wrong: a proxy that is slow or cut, a standby, a restored backup, a wrong
// clock, a small disk. Another fault is a function there.
//
// What takes a testing.TB ends the test if it fails, and gives no error back. [URL], [Server.Database] and
// [Server.SQL] are safe for concurrent use; the other functions of a Server are for one goroutine.
//
// Most tests do not call this: package internal/store/storetest gives them a database, which is of this PostgreSQL
// with SANDBOXD_TEST_STORE=postgres (make test-postgres).
package pgtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// nobody runs the server where the tests run as root, which it refuses.
const nobody = 65534

// Server is a PostgreSQL that runs.
type Server struct {
	bin, dir string
	running  *exec.Cmd
	stdin    io.WriteCloser
}

var (
	once   sync.Once
	common *Server
	failed error
	count  atomic.Int64
)

// URL is the address of an empty database, which ends with its server.
func URL(t testing.TB) string {
	t.Helper()
	bin := programs(t)
	once.Do(func() { common, failed = start(bin) })
	if failed != nil {
		t.Fatal(failed)
	}
	return common.Database(t)
}

// Start starts a server for this test alone.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := start(programs(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	return s
}

func (s *Server) end() {
	s.stdin.Close()
	_ = s.running.Wait()
}

// programs is where those of the server are.
func programs(t testing.TB) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return filepath.Dir(needs.Program(t, "initdb"))
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1])
}

func start(bin string) (*Server, error) {
	s, err := newServer(bin)
	if err != nil {
		return nil, err
	}
	out, err := s.command(filepath.Join(bin, "initdb"), "-D", s.data(), "-U", "sandboxd", "--auth=trust", "--no-sync",
		"--encoding=UTF8", "--locale=C").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return s, s.Run()
}

// newServer is a server that has nothing yet.
func newServer(bin string) (*Server, error) {
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir}
	if err := os.Chmod(dir, 0o711); err != nil { // daemons of other users reach the socket
		return nil, err
	}
	if os.Getuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = s.dir
	c.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=" + s.dir}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return c
}

// keep runs the server until its standard input ends, and then removes its directory, unless the
// server was killed to be started again. All its memory is in that directory: what lies in /dev/shm
// outlives a server that is killed.
const keep = `"$1" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off -c max_connections=200 \
	-c shared_buffers=16MB -c dynamic_shared_memory_type=mmap >>"$2/log" 2>&1 </dev/null &
pid=$!
echo "$pid"
if read -r _; then kill -KILL "$pid"; wait; exit; fi
kill -QUIT "$pid" 2>/dev/null
wait
cd /
rm -rf "$2"`

// Run starts the server, also after [Server.Kill], and waits until it answers.
func (s *Server) Run() error {
	c := s.command("/bin/sh", "-c", keep, "sh", filepath.Join(s.bin, "postgres"), s.dir)
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		return err
	}
	s.running, s.stdin = c, in
	deadline := time.Now().Add(time.Minute)
	for {
		err := s.psql("SELECT 1").Run()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("PostgreSQL does not answer: %w\n%s", err, log)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Kill kills the server with all its processes, as a loss of power would. Unlike then, the kernel keeps what was
// written. Call [Server.Run] after it.
func (s *Server) Kill() error {
	if _, err := io.WriteString(s.stdin, "kill\n"); err != nil {
		return err
	}
	_ = s.running.Wait()
	for len(s.processes()) > 0 { // those that it started would still write
		for _, pid := range s.processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		time.Sleep(time.Millisecond)
	}
	return os.RemoveAll(filepath.Join(s.data(), "postmaster.pid"))
}

// processes are those of the server: all work in the directory of its data.
func (s *Server) processes() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, cwd := range all {
		if dir, err := os.Readlink(cwd); err == nil && dir == s.data() {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(cwd)))
			if err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Signal sends a signal to the server, such as SIGSTOP.
func (s *Server) Signal(sig syscall.Signal) error {
	pid, err := s.pid()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, sig)
}

func (s *Server) pid() (int, error) {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(line)
}

// Database makes an empty database, and returns its address.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("t%d", count.Add(1))
	s.SQL(t, "CREATE DATABASE "+name+" STRATEGY file_copy") // half of the work of the other one
	return "postgres://sandboxd@/" + name + "?host=" + s.dir
}

// SQL runs a statement as the owner of the server.
func (s *Server) SQL(t testing.TB, statement string) {
	t.Helper()
	if out, err := s.psql(statement).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", statement, err, out)
	}
}

func (s *Server) psql(statement string) *exec.Cmd { return s.psqlAt("postgres", statement) }

func (s *Server) psqlAt(database, statement string) *exec.Cmd {
	return s.command(filepath.Join(s.bin, "psql"), "-h", s.dir, "-U", "sandboxd", "-v", "ON_ERROR_STOP=1", "-c",
		statement, database)
}

// Dir is where the socket of the server lies.
func (s *Server) Dir() string { return s.dir }
