package sandbox

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/launch"
)

// TestForget: what runs ends, what was private is gone, also where a program closed
// it to everybody, and another session notices nothing.
func TestForget(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		backend := newCage(t, Options{})
		needCage(t, backend)
		c := backend.(*cage)
		ws := shortTemp(t)
		s := guard.Settings{AllowedWritePaths: []string{ws, "/tmp"}}
		boxes := map[string]Box{}
		for _, session := range []string{"gone", "stays"} {
			box, err := c.Box(context.Background(), session, "strict", s)
			if err != nil {
				t.Fatal(err)
			}
			boxes[session] = box
			e, out := runIn(t, box, ws, "sh", "-c",
				"mkdir -p /tmp/a/b && echo x > /tmp/a/b/f && chmod 0 /tmp/a/b /tmp/a && echo y > /tmp/g")
			if e.Code != 0 {
				t.Fatalf("exit %+v: %s", e, out)
			}
		}
		p, err := boxes["gone"].Start(context.Background(), Spec{Argv: []string{"sleep", "1000.2323"}, Dir: ws})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Forget("gone"); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(); !errors.Is(err, launch.ErrGone) {
			t.Errorf("the call that ran: %v", err)
		}
		if left := processesWith(t, "1000.2323"); left != nil {
			t.Errorf("left: %v", left)
		}
		if _, err := os.Lstat(c.sessionDir("gone", Daemon())); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the private directory: %v", err)
		}
		again, err := c.Box(context.Background(), "gone", "strict", s)
		if err != nil {
			t.Fatal(err)
		}
		if e, out := runIn(t, again, ws, "sh", "-c", "test -e /tmp/a || test -e /tmp/g || echo empty"); e.Code != 0 ||
			out != "empty\n" {
			t.Errorf("a new session of that name finds %q, %+v", out, e)
		}
		if e, out := runIn(t, boxes["stays"], ws, "cat", "/tmp/g"); e.Code != 0 || out != "y\n" {
			t.Errorf("the other session finds %q, %+v", out, e)
		}
	})
}

// TestLaunchersRest: a launcher that has not been used for a while ends, one that
// works does not, and the session goes on with its private files.
func TestLaunchersRest(t *testing.T) {
	backend := newCage(t, Options{})
	needCage(t, backend)
	c := backend.(*cage)
	ws := shortTemp(t)
	box := newBox(t, c, "strict", guard.Settings{AllowedWritePaths: []string{ws, "/tmp"}})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := box.Start(context.Background(), Spec{
		Argv: []string{"sh", "-c", "echo here > /tmp/f; read x"}, Dir: ws,
		Stdin: r,
	})
	if err != nil {
		t.Fatal(err)
	}
	working := p.(*proc).launcher
	c.pool.RetireUnused(0)
	if working.Gone() {
		t.Error("a launcher with a call in it was ended")
	}
	w.Close()
	if _, err := p.Wait(); err != nil {
		t.Errorf("the call: %v", err)
	}
	c.pool.RetireUnused(launch.IdleTime)
	if working.Gone() {
		t.Error("a launcher that was just used was ended")
	}
	c.pool.RetireUnused(0)
	if !working.Gone() {
		t.Error("the launcher that rests was not ended")
	}
	if e, out := runIn(t, box, ws, "cat", "/tmp/f"); e.Code != 0 || out != "here\n" {
		t.Errorf("the next call: %+v %q", e, out)
	}
}

// TestLaunchersAreBounded: many sessions that each make a call.
func TestLaunchersAreBounded(t *testing.T) {
	backend := newCage(t, Options{})
	needCage(t, backend)
	c := backend.(*cage)
	c.pool.Max = 3
	ws := shortTemp(t)
	for i := range 12 {
		box, err := c.Box(context.Background(), strconv.Itoa(i), "strict",
			guard.Settings{AllowedWritePaths: []string{ws}})
		if err != nil {
			t.Fatal(err)
		}
		if e, out := runIn(t, box, ws, "echo", "ok"); e.Code != 0 || out != "ok\n" {
			t.Fatalf("session %d: %+v %q", i, e, out)
		}
		n := len(c.pool.All())
		if n > 3 {
			t.Fatalf("%d launchers after %d sessions", n, i+1)
		}
	}
}
