package pgtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// Proxy passes connections on to a server. Its address stays when the server is another one.
type Proxy struct {
	dir string

	mu    sync.Mutex // guards what follows
	to    string     // the directory of the server
	slow  time.Duration
	conns map[net.Conn]bool
}

// socket is the name of a server's socket in its directory.
const socket = ".s.PGSQL.5432"

// Through is a proxy before a server, until the test ends.
func Through(t testing.TB, s *Server) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, socket), 0o777); err != nil {
		t.Fatal(err)
	}
	p := &Proxy{dir: dir, to: s.dir, conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		serving.Wait()
		os.RemoveAll(dir)
	})
	return p
}

// URL is the address of a database of the server, by way of the proxy.
func (p *Proxy) URL(direct string) string {
	before, _, _ := strings.Cut(direct, "?host=")
	return before + "?host=" + p.dir
}

// Slow delays each answer of the server by this time.
func (p *Proxy) Slow(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = by
}

// To ends all connections; new ones go to another server.
func (p *Proxy) To(s *Server) {
	p.mu.Lock()
	p.to = s.dir
	p.mu.Unlock()
	p.cut()
}

func (p *Proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// serve passes on what both sides say, until one has ended.
func (p *Proxy) serve(c net.Conn) {
	defer c.Close()
	p.mu.Lock()
	to := p.to
	p.conns[c] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
	}()
	server, err := net.Dial("unix", filepath.Join(to, socket))
	if err != nil {
		return
	}
	defer server.Close()
	var asking sync.WaitGroup
	asking.Go(func() {
		_, _ = io.Copy(server, c)
		server.Close()
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if n > 0 {
			p.mu.Lock()
			slow := p.slow
			p.mu.Unlock()
			time.Sleep(slow)
			if _, err := c.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	c.Close()
	asking.Wait()
}

// Backup copies the data of the server. restore puts the copy back. Both start the server again.
func (s *Server) Backup(t testing.TB) (restore func()) {
	t.Helper()
	swap := func(from, to string) {
		t.Helper()
		err := s.Kill()
		if err == nil {
			err = os.RemoveAll(to)
		}
		if err == nil {
			err = s.command("cp", "-a", from, to).Run()
		}
		if err == nil {
			err = s.Run()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	kept := filepath.Join(s.dir, "kept")
	swap(s.data(), kept)
	return func() { swap(kept, s.data()) }
}

// Standby is a copy of the server that follows it: it has what is committed there before that is
// acknowledged. It takes writes after [Server.Promote].
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	copied, err := newServer(s.bin)
	if err != nil {
		t.Fatal(err)
	}
	out, err := copied.command(filepath.Join(s.bin, "pg_basebackup"), "-h", s.dir, "-U", "sandboxd", "-D",
		copied.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	if err := copied.Run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(copied.end)
	s.SQL(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	s.SQL(t, "ALTER SYSTEM SET synchronous_commit = remote_apply")
	s.SQL(t, "SELECT pg_reload_conf()")
	const followed = `DO $$ BEGIN
		ASSERT (SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync') = 1; END $$`
	for end := time.Now().Add(time.Minute); s.psql(followed).Run() != nil; {
		if time.Now().After(end) {
			t.Fatal("the copy does not follow")
		}
	}
	return copied
}

// Promote makes a standby take writes.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.SQL(t, "SELECT pg_promote()")
	s.SQL(t, "ALTER SYSTEM RESET synchronous_standby_names")
	s.SQL(t, "SELECT pg_reload_conf()")
}

// URLWithClock is [URL] of a database whose clock is ahead of that of the host.
func URLWithClock(t testing.TB, ahead time.Duration) string {
	t.Helper()
	url := URL(t)
	name := strings.TrimPrefix(strings.Split(url, "?")[0], "postgres://sandboxd@/")
	clock := fmt.Sprintf(`CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
		$$ SELECT pg_catalog.clock_timestamp() + interval '%d seconds' $$`, int(ahead.Seconds()))
	if out, err := common.psqlAt(name, clock).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	common.SQL(t, "ALTER DATABASE "+name+" SET search_path = public, pg_catalog")
	return url
}

// Disk is a small disk of its own for a database.
type Disk struct{ dir string }

// OnSmallDisk makes a database whose tables are on a disk of so many megabytes; only root can, and once for a
// server.
func (s *Server) OnSmallDisk(t testing.TB, megabytes int) (url string, disk Disk) {
	t.Helper()
	needs.Root(t, "to mount a small disk")
	disk = Disk{filepath.Join(s.dir, "small")}
	if err := s.command("mkdir", disk.dir).Run(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("small", disk.dir, "tmpfs", 0, size(megabytes)); err != nil {
		needs.Missing(t, "mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	err := errors.Join(os.Chown(disk.dir, nobody, nobody), os.Chmod(disk.dir, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	s.SQL(t, "CREATE TABLESPACE small LOCATION '"+disk.dir+"'")
	s.SQL(t, "CREATE DATABASE small TABLESPACE small")
	return "postgres://sandboxd@/small?host=" + s.dir, disk
}

// Grow makes the disk larger.
func (d Disk) Grow(t testing.TB, megabytes int) {
	t.Helper()
	if err := unix.Mount("small", d.dir, "tmpfs", unix.MS_REMOUNT, size(megabytes)); err != nil {
		t.Fatal(err)
	}
}

func size(megabytes int) string { return "size=" + strconv.Itoa(megabytes) + "m" }
