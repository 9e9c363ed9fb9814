package lsp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// maxRunning bounds the running servers of one account. Starting another one ends the one that has been idle
// longest.
const maxRunning = 16

// slot is one server, by its name, of one session. Only the holder of turn may use, start or end it.
type slot struct {
	session, account, name string

	turn chan struct{}   // holds one value while the slot is free
	ctx  context.Context // ends with the session
	stop context.CancelFunc

	// The holder of turn owns the next fields.
	run *running

	mu   sync.Mutex // guards the next fields, which others may read
	on   bool       // a server runs
	used time.Time
	idle *time.Timer
}

// running is a running server with the settings that it was started with.
type running struct {
	*process
	conf     Server
	dir      string
	uid      int // of its user; -1 means the daemon
	settings guard.Settings
	forget   func()
	seen     map[string]stamp // files as the server knows them
}

// slot returns the slot of a session for a server.
func (f *feature) slot(in tool.In, name string) (*slot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, &tool.Error{Code: "stopping", Msg: "the daemon stops", Hint: "try again when it runs again"}
	}
	for _, s := range f.slots {
		if s.session == in.Session && s.name == name {
			return s, nil
		}
	}
	s := &slot{session: in.Session, account: in.Account, name: name, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	s.ctx, s.stop = context.WithCancel(context.Background())
	f.slots = append(f.slots, s)
	return s, nil
}

// with calls ask with the server of a session. It first starts the server if none runs or if the settings have
// changed.
func (f *feature) with(ctx context.Context, in tool.In, name string, ask func(context.Context, *running) error) error {
	s, err := f.slot(in, name)
	if err != nil {
		return err
	}
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.ctx.Err() != nil {
		return failed(name, errors.New("the session has ended"))
	}
	c := f.config.Load()
	conf, ok := c.Servers[name]
	if !ok {
		return failed(name, errors.New("the configuration has it no more"))
	}
	timeout := c.Timeout
	if wall := time.Duration(in.Obligations.WallSeconds) * time.Second; wall > 0 {
		timeout = min(timeout, wall)
	}
	late := fmt.Errorf("it did not answer within %s", timeout)
	began, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	if err := f.ready(began, s, in, conf); err != nil {
		return f.explain(ctx, name, err)
	}
	asking, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	err = ask(asking, s.run)
	if err != nil && !errors.As(err, new(refusedError)) && !errors.As(err, new(*tool.Error)) {
		err = s.run.explain(err)
	}
	if err != nil {
		err = f.explain(ctx, name, err)
	}
	if !s.run.usable() || errors.Is(context.Cause(asking), late) {
		s.end()
	} else {
		s.rest(c.Idle)
	}
	return err
}

// explain returns err as an error of the server, with secrets masked, unless the call itself ended or the error is
// one of the tool.
func (f *feature) explain(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil || errors.As(err, new(*tool.Error)) {
		return err
	}
	return failed(name, errors.New(f.host.Redact(fmt.Sprintf("%.2000s", err))))
}

func failed(name string, err error) error {
	return &tool.Error{
		Code: "language_server_failed", Msg: fmt.Sprintf("language server %s: %v", name, err),
		Hint: "Grep searches without it; an operator can look at lsp.servers",
	}
}

// ready makes sure that the server runs with the current settings and configuration, in the directory of the
// session, with the rights of the caller.
func (f *feature) ready(ctx context.Context, s *slot, in tool.In, conf Server) error {
	user, uid, err := userOf(in)
	if err != nil {
		return err
	}
	session, err := f.host.Sessions.Session(ctx, in.Account, in.Session)
	if err != nil {
		return err
	}
	x := companion(s.name, conf)
	want, err := f.host.Companions.Settings(session, x)
	if err != nil {
		return err
	}
	if r := s.run; r != nil && r.usable() && r.conf.equal(conf) && r.dir == in.Dir && r.uid == uid &&
		reflect.DeepEqual(r.settings, want) {
		return nil
	}
	s.end()
	if err := f.room(s); err != nil {
		return err
	}
	box, settings, err := f.host.Companions.Box(s.ctx, session, x)
	if err != nil {
		return err
	}
	forget := func() {
		if err := errors.Join(box.Close(), f.host.Companions.Forget(s.session, x)); err != nil {
			f.host.Log.Error("the cage of a language server was not removed", "server", s.name, "error", err)
		}
	}
	own := box.As(user)
	p, err := begin(ctx, in.Dir, func(stdin *os.File, stdout, stderr io.Writer) (sandbox.Proc, error) {
		return own.Start(s.ctx, sandbox.Spec{
			Argv: append([]string{conf.Command}, conf.Args...), Dir: in.Dir, Env: conf.environ(),
			Stdin: stdin, Stdout: stdout, Stderr: stderr, Bounded: true, Lasting: true,
		})
	})
	if err != nil {
		forget()
		return err
	}
	s.run = &running{process: p, conf: conf, dir: in.Dir, uid: uid, settings: settings, forget: forget}
	s.set(true)
	return nil
}

// userOf returns the user whose rights a server has for a call.
func userOf(in tool.In) (sandbox.User, int, error) {
	switch {
	case !sandbox.TakesRights():
		return sandbox.Daemon(), -1, nil
	case in.By == nil:
		return sandbox.User{}, 0, errors.New("no process made this call, so it has nobody's rights")
	}
	return sandbox.NewUser(in.By.UID, in.By.GID, in.By.Groups, in.By.Name, in.By.Home), in.By.UID, nil
}

// companion returns the sandbox of a server. The server sees what calls of the session may read, writes only its
// private files, and reaches no host.
func companion(name string, conf Server) tool.Companion {
	return tool.Companion{Name: "lsp/" + name, Settings: func(s guard.Settings) guard.Settings {
		if s.AllowedReadPaths != nil && filepath.IsAbs(conf.Command) {
			s.AllowedReadPaths = append(slices.Clone(s.AllowedReadPaths), conf.Command)
		}
		s.AllowedWritePaths = []string{guard.NoPath}
		s.Network = guard.Network{Unlisted: guard.UnlistedDeny}
		s.Env, s.AllowedCommands, s.DeniedCommands = nil, nil, nil // those are for calls; the server has its own
		return s
	}}
}

// room ends the server of the account that has been idle longest, if there are too many with another one.
func (f *feature) room(s *slot) error {
	f.mu.Lock()
	var others []*slot
	for _, o := range f.slots {
		if o != s && o.account == s.account && o.runs() {
			others = append(others, o)
		}
	}
	f.mu.Unlock()
	if len(others) < maxRunning {
		return nil
	}
	slices.SortFunc(others, func(a, b *slot) int { return a.since().Compare(b.since()) })
	for _, o := range others {
		select {
		case <-o.turn:
			o.end()
			o.turn <- struct{}{}
			return nil
		default: // the server is busy
		}
	}
	return &tool.Error{
		Code: "too_many_language_servers",
		Msg:  fmt.Sprintf("%d language servers of this account work, and no more may run", len(others)),
		Hint: "call again in a moment",
	}
}

func (s *slot) runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on
}

func (s *slot) since() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

func (s *slot) set(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.used = on, time.Now()
	if s.idle != nil {
		s.idle.Stop()
	}
}

// end ends the server. The caller must hold turn.
func (s *slot) end() {
	if s.run != nil {
		s.run.end()
		s.run.forget()
		s.run = nil
		s.set(false)
	}
}

// rest ends the server once it has been idle for so long. The caller must hold turn.
func (s *slot) rest(idle time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
	if s.idle != nil {
		s.idle.Stop()
	}
	s.idle = time.AfterFunc(idle, func() {
		select {
		case <-s.turn:
		default: // the server is busy, and rests again after that
			return
		}
		defer func() { s.turn <- struct{}{} }()
		if time.Since(s.since()) >= idle {
			s.end()
		}
	})
}

// close ends the server of a slot that was removed from the list.
func (s *slot) close() {
	s.stop() // a running question gets an error
	<-s.turn
	s.end()
	s.turn <- struct{}{}
}

// drop ends the servers of the slots that which selects.
func (f *feature) drop(which func(*slot) bool) {
	f.mu.Lock()
	var gone []*slot
	f.slots = slices.DeleteFunc(f.slots, func(s *slot) bool {
		if !which(s) {
			return false
		}
		gone = append(gone, s)
		return true
	})
	f.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range gone {
		wg.Go(s.close)
	}
	wg.Wait()
}

// running returns the number of running servers.
func (f *feature) running() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.slots {
		if s.runs() {
			n++
		}
	}
	return n
}
