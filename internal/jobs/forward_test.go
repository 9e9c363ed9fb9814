package jobs

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// echo is a server that sends back what it gets until the client has sent all.
func echo(t *testing.T) net.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr()
}

// soon keeps a test that fails from waiting for ever.
func soon(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
}

func unrecorded(Forward) error { return nil }

// TestAForwardJoinsAndEnds: each direction ends by itself, and the end of the job closes the
// port and what is connected to it.
func TestAForwardJoinsAndEnds(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	j.program = &program{port: echo(t)}
	f, err := j.Forward(80, 0, unrecorded)
	if err != nil || !strings.HasPrefix(f.Address, "127.0.0.1:") || len(j.Info().Forwards) != 1 {
		t.Fatalf("got %+v, %v, %+v", f, err, j.Info())
	}
	conn, err := net.Dial("tcp", f.Address)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "hello")
	conn.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(conn); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	open, err := net.Dial("tcp", f.Address)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(open, "x")
	if _, err := io.ReadFull(open, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	j.finish(c, sandbox.Exit{}, fine)
	soon(t, open)
	if _, err := open.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection outlives the job")
	}
	if conn, err := net.Dial("tcp", f.Address); err == nil {
		conn.Close()
		t.Error("the port outlives the job")
	}
	if len(j.Info().Forwards) != 0 {
		t.Errorf("got %+v", j.Info())
	}
	if _, err := j.Forward(80, 0, unrecorded); code(err) != "job_ended" {
		t.Errorf("after the end: %v", err)
	}
}

// TestAForwardIsRefused: without a record, twice, and at a port of somebody else; a job that
// serves nothing resets.
func TestAForwardIsRefused(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	defer j.finish(c, sandbox.Exit{}, fine)
	var at string
	if _, err := j.Forward(80, 0, func(f Forward) error { at = f.Address; return errors.New("full") }); err == nil {
		t.Error("offered without a record")
	}
	if conn, err := net.Dial("tcp", at); err == nil || len(j.Info().Forwards) != 0 {
		t.Errorf("it listens: %v, %+v", conn, j.Info())
	}
	taken := echo(t).(*net.TCPAddr).Port
	if _, err := j.Forward(80, taken, unrecorded); code(err) != "port_taken" {
		t.Errorf("got %v", err)
	}
	f, err := j.Forward(80, 0, unrecorded)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Forward(80, 0, unrecorded); code(err) != "port_taken" {
		t.Errorf("twice: %v", err)
	}
	if conn, err := net.Dial("tcp", f.Address); err == nil { // or it is reset already
		soon(t, conn)
		_, err = conn.Read(make([]byte, 1))
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a job that serves nothing: %v", err)
		}
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a job that serves nothing: %v", err)
	}
	if err := j.EndForward(80); err != nil {
		t.Error(err)
	}
	if err := j.EndForward(80); code(err) != "port_not_forwarded" {
		t.Errorf("got %v", err)
	}
}

// TestAForwardIsAtItsOwnPortUnlessNamed, and the record has who offered it and who ended that.
func TestAForwardIsAtItsOwnPortUnlessNamed(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	defer j.finish(c, sandbox.Exit{}, fine)
	taken := echo(t).(*net.TCPAddr).Port
	path := "/jobs/" + j.ID() + "/forwards"
	for _, tt := range []struct{ line, body, want string }{
		{"POST " + path, fmt.Sprintf(`{"port":%d}`, taken), fmt.Sprintf("port_taken: port %d of the host", taken)},
		{"POST " + path, `{"port":80,"at":0}`, `{"port":80,"address":"127.0.0.1:`},
		{"DELETE " + path + "/80", "", `{"id":"80","deleted":true}`},
		{"DELETE " + path + "/80", "", "port_not_forwarded: "},
	} {
		got := routetest.Call(t, w.routes(), tool.RoleOperator, tt.line, tt.body)
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s %s: %s, want %s", tt.line, tt.body, got, tt.want)
		}
	}
	var recorded []string
	for _, n := range w.notes {
		recorded = append(recorded, n.Name+" "+n.Detail["port"]+" by "+n.Detail["by"])
		if n.Detail["job"] != j.ID() || n.Session != "s" || n.Account != "a" {
			t.Errorf("recorded %+v", n)
		}
	}
	if got := strings.Join(recorded, ", "); got != "job_forwarded 80 by uid:7, job_forward_ended 80 by uid:7" {
		t.Errorf("recorded %s", got)
	}
}

// TestAForwardHasRoomForSoMany: what comes then waits until one of them ends.
func TestAForwardHasRoomForSoMany(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	defer j.finish(c, sandbox.Exit{}, fine)
	j.program = &program{port: echo(t)}
	f, err := j.Forward(80, 0, unrecorded)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", f.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		io.WriteString(conn, "x")
		return conn
	}
	answers := func(conn net.Conn) error {
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	var first net.Conn
	for range maxConns {
		conn := dial()
		soon(t, conn)
		if err := answers(conn); err != nil {
			t.Fatal(err)
		}
		first = conn
	}
	late := dial()
	_ = late.SetReadDeadline(time.Now().Add(300 * time.Millisecond)) // nothing comes, so a slow machine says the same
	if err := answers(late); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one more than %d: %v", maxConns, err)
	}
	first.Close()
	soon(t, late)
	if err := answers(late); err != nil {
		t.Errorf("when one of them has ended: %v", err)
	}
}
