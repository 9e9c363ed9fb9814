package lsp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

const hovering = `{"operation":"hover","file_path":"a.go","line":5,"character":6}`

func TestT52_WhatAServerHears(t *testing.T) {
	w := served(t, "tells what it heard", "null")
	w.write("old.go", "package a\n")
	w.ok(hovering)
	if err := os.Remove(filepath.Join(w.dir, "old.go")); err != nil {
		t.Fatal(err)
	}
	w.write("new.go", "package a\n")
	w.write("a.go", "package other\n")
	text, _ := w.ok(hovering)
	for _, want := range []string{
		`"method":"initialized"`,
		`"languageId":"go","text":"package a\n`, // the file as it was at the first question
		fmt.Sprintf(`{"uri":"file://%s/a.go","type":2},{"uri":"file://%s/new.go","type":1},{"uri":"file://%s/old.go","type":3}`,
			w.dir, w.dir, w.dir),
		`"text":"package other\n"`,
		`"method":"textDocument/didClose"`,
		`"position":{"character":6,"line":5}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it did not hear %s, but\n%s", want, text)
		}
	}
	if n := strings.Count(text, "didChangeWatchedFiles"); n != 1 {
		t.Errorf("it heard of changes %d times", n)
	}
}

// A server that runs under other circumstances than those of now is ended, and another one is started.
func TestT52_AServerOfNow(t *testing.T) {
	w := served(t, "answers", `{"contents":"text"}`)
	w.ok(hovering)
	w.ok(hovering)
	for i, tt := range []struct {
		name   string
		change func()
	}{
		{"other settings", func() {
			w.mu.Lock()
			w.settings.DeniedPaths = []string{"/srv"}
			w.mu.Unlock()
		}},
		{"another entry", func() {
			c := *w.f.config.Load()
			s := c.Servers["go"]
			s.Args = []string{"-v"}
			c.Servers = map[string]Server{"go": s}
			w.part.Reload(t.Context(), &c)
		}},
		{"another directory", func() {
			w.write("sub/a.go", goFile)
			w.dir = filepath.Join(w.dir, "sub")
		}},
		{"a server that has died", func() {
			w.f.slots[0].run.proc.Terminate(0)
			<-w.f.slots[0].run.exited
		}},
	} {
		tt.change()
		w.ok(hovering)
		w.ok(hovering)
		if want := i + 2; w.box.started != want || w.forgot.Load() != int64(want-1) || w.f.running() != 1 {
			t.Errorf("%s: %d were started, %d cages removed, %d run", tt.name, w.box.started, w.forgot.Load(), w.f.running())
		}
	}
	w.part.Reload(t.Context(), Defaults())
	if w.f.running() != 0 {
		t.Error("a server runs that the configuration has no more")
	}
}

func TestT52_TheEndOfASession(t *testing.T) {
	w := served(t, "says nothing", "null")
	failed := make(chan error)
	go func() {
		_, _, err := w.call(question)
		failed <- err
	}()
	until(t, "the server runs", func() bool { return w.f.running() == 1 })
	if err := w.part.Forget(t.Context(), tool.Session{ID: "another"}); err != nil || w.f.running() != 1 {
		t.Errorf("got %v, %d run", err, w.f.running())
	}
	if err := w.part.Forget(t.Context(), tool.Session{ID: "s"}); err != nil {
		t.Error(err)
	}
	if n := w.f.running(); n != 0 || w.forgot.Load() != 1 {
		t.Errorf("%d run, %d cages were removed", n, w.forgot.Load())
	}
	if err := <-failed; err == nil {
		t.Error("the question was answered")
	}
	in := w.in(question)
	in.Session = "gone"
	err := w.f.with(t.Context(), in, "go", func(context.Context, *running) error { return nil })
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "session_not_found" || w.box.started != 1 {
		t.Errorf("got %v, %d were started", err, w.box.started)
	}
}

func TestT52_NobodyAsks(t *testing.T) {
	w := served(t, "answers", "null")
	c := *w.f.config.Load()
	c.Idle = 10 * time.Millisecond
	w.f.config.Store(&c)
	for n := 1; n <= 2; n++ {
		w.ok(question)
		until(t, "no server runs", func() bool { return w.f.running() == 0 && w.forgot.Load() == int64(n) })
	}
}

// A call waits for its server no longer than a policy allows it, and not for one that the configuration has no more.
func TestT52_ACallWaitsInVain(t *testing.T) {
	w := served(t, "says nothing", "null")
	in := w.in(question)
	in.Obligations.WallSeconds = 1
	asks := func(ctx context.Context, r *running) error {
		_, err := r.call(ctx, "textDocument/hover", nil)
		return err
	}
	if err := w.f.with(t.Context(), in, "go", asks); err == nil || !strings.Contains(err.Error(), "within 1s") {
		t.Errorf("got %v", err)
	}
	left := errors.New("the caller left")
	err := w.f.with(t.Context(), w.in(question), "go", func(ctx context.Context, _ *running) error {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(left)
		return w.f.with(ctx, w.in(question), "go", func(context.Context, *running) error { return nil })
	})
	if err == nil || !strings.Contains(err.Error(), left.Error()) {
		t.Errorf("while another call asks: %v", err)
	}
	w.f.config.Store(Defaults())
	if err := w.f.with(t.Context(), w.in(question), "go", asks); err == nil ||
		!strings.Contains(err.Error(), "the configuration has it no more") {
		t.Errorf("got %v", err)
	}
}

// A program that a limit ended says which, and its last line; no more of what it says is kept than that needs.
func TestT52_WhyAServerEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{conn: &conn{}, exited: make(chan struct{}), exit: sandbox.Exit{Code: 137, Limit: "memoryBytes"}}
		close(p.exited)
		began := time.Now()
		for range 3 << 10 {
			p.stderr.Write([]byte(strings.Repeat("x", 1023) + "\n"))
		}
		p.stderr.Write([]byte("out of memory"))
		if took := time.Since(began); took < 2*time.Second || len(p.stderr.kept) > tailBytes {
			t.Errorf("3 MiB took %v, %d bytes are kept", took, len(p.stderr.kept))
		}
		got := p.explain(errors.New("no answer")).Error()
		want := `no answer; it ended with status 137, because of its limit memoryBytes; it said last: "out of memory"`
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestT52_ACallThatIsCancelled(t *testing.T) {
	w := served(t, "says nothing", "null")
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the caller left")
	err := w.f.with(ctx, w.in(question), "go", func(ctx context.Context, r *running) error {
		cancel(left)
		_, err := r.call(ctx, "textDocument/hover", nil)
		return err
	})
	if err == nil || w.f.running() != 1 {
		t.Errorf("got %v, %d run: a caller that leaves does not end the server", err, w.f.running())
	}
}

func TestT52_AServerThatDoesNotEnd(t *testing.T) {
	w := served(t, "does not end", "null")
	w.ok(`{"operation":"workspaceSymbol","query":"x"}`)
	if err := w.part.Close(); err != nil || w.f.running() != 0 {
		t.Errorf("got %v, %d run", err, w.f.running())
	}
	w.fails(question, "stopping")
}

func TestT52_AnAccountHasSoManyServers(t *testing.T) {
	w := served(t, "answers", "null")
	busy, answered := make(chan struct{}), make(chan error)
	ask := func(session string, f func()) error {
		in := w.in(question)
		in.Session = session
		return w.f.with(t.Context(), in, "go", func(context.Context, *running) error { f(); return nil })
	}
	began := make(chan struct{})
	go func() { answered <- ask("s0", func() { close(began); <-busy }) }()
	<-began
	for i := 1; i <= 16; i++ {
		if err := ask(fmt.Sprintf("s%d", i), func() {}); err != nil {
			t.Fatal(err)
		}
	}
	close(busy)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	var run []string
	for _, s := range w.f.slots {
		if s.runs() {
			run = append(run, s.session)
		}
	}
	if len(run) != 16 || !slices.Contains(run, "s0") || slices.Contains(run, "s1") {
		t.Errorf("these run: %q; want not s1, which was asked first of those that rest", run)
	}
}

// Where every server of an account answers somebody, none is ended for another one.
func TestT52_ServersThatWorkMakeNoRoom(t *testing.T) {
	f := newFeature(part.Host{}, Defaults())
	one := &slot{account: "a", turn: make(chan struct{}, 1)}
	for range maxRunning {
		f.slots = append(f.slots, &slot{account: "a", turn: make(chan struct{}, 1), on: true})
	}
	e, ok := errors.AsType[*tool.Error](f.room(one))
	if !ok || e.Code != "too_many_language_servers" ||
		!strings.Contains(e.Msg, "16 language servers of this account work") {
		t.Errorf("got %+v", e)
	}
	f.slots[3].account = "b"
	if err := f.room(one); err != nil {
		t.Errorf("a server of another account counts: %v", err)
	}
	f.slots[3].account = "a"
	f.slots[3].turn <- struct{}{}
	if err := f.room(one); err != nil {
		t.Errorf("the server that rests makes no room: %v", err)
	}
}

func TestT52_TheSettingsOfAServer(t *testing.T) {
	own := guard.Settings{
		AllowedReadPaths: []string{"/srv"}, AllowedWritePaths: []string{"/srv/w"}, DeniedPaths: []string{"/srv/d"},
		Network: guard.Network{AllowedDomains: []string{"example.com"}}, Env: map[string]string{"A": "b"},
	}
	got := companion("go", Server{Command: "/opt/gopls"}).Settings(own)
	switch {
	case !slices.Equal(got.AllowedReadPaths, []string{"/srv", "/opt/gopls"}) || len(own.AllowedReadPaths) != 1,
		!slices.Equal(got.AllowedWritePaths, []string{guard.NoPath}), !slices.Equal(got.DeniedPaths, own.DeniedPaths),
		got.Network.Reaches(), got.Env != nil:
		t.Errorf("got %+v", got)
	}
	if got := companion("go", Server{Command: "/opt/gopls"}).Settings(guard.Settings{}); got.AllowedReadPaths != nil {
		t.Errorf("got %+v: no list is every path", got)
	}
}

func TestT52_WithWhoseRights(t *testing.T) {
	in := tool.In{By: &tool.Identity{UID: 4242, GID: 4242}}
	user, uid, err := userOf(in)
	if sandbox.TakesRights() && (err != nil || uid != 4242 || user.ID() == nil || user.ID().UID != 4242) ||
		!sandbox.TakesRights() && (err != nil || user.ID() != nil) {
		t.Errorf("got %+v, %d, %v", user, uid, err)
	}
	if _, _, err := userOf(tool.In{}); (err == nil) != !sandbox.TakesRights() {
		t.Errorf("got %v of a call that no process made", err)
	}
}

// Each session has servers of its own, and one for each language.
func TestT52_ASlotIsOfOneSessionAndOneServer(t *testing.T) {
	w := newWorld(t)
	f := newFeature(part.Host{}, Defaults())
	of := func(session, name string) *slot {
		t.Helper()
		in := w.in(`{}`)
		in.Session = session
		s, err := f.slot(in, name)
		if err != nil || s.session != session || s.name != name {
			t.Fatalf("%s of %s: got %s of %s, %v", name, session, s.name, s.session, err)
		}
		return s
	}
	first := of("s", "go")
	if of("s", "python") == first || of("t", "go") == first || of("s", "go") != first {
		t.Error("slots are mixed up")
	}
}
