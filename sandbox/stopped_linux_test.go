package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/launch"
	"github.com/sandboxd/sandboxd/tests/tier"
	"golang.org/x/sys/unix"
)

// stopping is who is stopped, and when.
type stopping struct {
	name           string
	before, during func(*stopped)
}

// stopped is a cage in which something is stopped.
type stopped struct {
	t       *testing.T
	c       *cage
	box     Box
	ws      string
	byLimit bool          // the wall clock ends the call, not whoever made it
	mark    string        // in the environment of the call
	ended   chan struct{} // closed when the call has ended
	rnd     *rand.Rand
}

func (s *stopped) launchers() {
	for _, l := range s.c.pool.All() {
		_ = l.Process.Signal(unix.SIGSTOP) // it may be gone
	}
}

// tree stops the init processes of the calls of all launchers, and what runs below them.
func (s *stopped) tree(init, program bool) {
	for _, l := range s.c.pool.All() {
		for _, i := range childrenOf(l.Process.Pid) {
			for _, p := range childrenOf(i) {
				if program {
					_ = unix.Kill(p, unix.SIGSTOP)
				}
			}
			if init {
				_ = unix.Kill(i, unix.SIGSTOP)
			}
		}
	}
}

// begun waits until the program of the call runs, or has run. On a busy machine the limit may come first: then
// the call ends, and there may never have been a program.
func (s *stopped) begun() {
	for end := time.Now().Add(2 * time.Minute); !exists(s.told()); {
		select {
		case <-s.ended:
			return
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(end) {
			s.t.Error("the program does not begin")
			return
		}
	}
}

// told is the file that the program makes when it begins.
func (s *stopped) told() string { return filepath.Join(s.ws, strings.ReplaceAll(s.mark, "=", "-")) }

// soon waits for less than most.
func (s *stopped) soon(most time.Duration) { time.Sleep(time.Duration(s.rnd.Int64N(int64(most)))) }

// stoppings are all of them; what happens at a random moment shows races when it is repeated.
func stoppings() []stopping {
	return []stopping{
		{name: "launcher, before the call", before: (*stopped).launchers},
		{name: "launcher, while the call begins", during: func(s *stopped) { s.soon(3 * time.Millisecond); s.launchers() }},
		{name: "launcher, while the program runs", during: func(s *stopped) { s.begun(); s.launchers() }},
		{name: "launcher, while the call is ended", during: func(s *stopped) { s.begun(); s.soon(endAfter * 2); s.launchers() }},
		{name: "waiting init process", before: func(s *stopped) { s.tree(true, false) }},
		{name: "waiting program", before: func(s *stopped) { s.tree(false, true) }},
		{name: "init process", during: func(s *stopped) { s.begun(); s.tree(true, false) }},
		{name: "program", during: func(s *stopped) { s.begun(); s.tree(false, true) }},
		{name: "init process and program", during: func(s *stopped) { s.begun(); s.tree(true, true) }},
		{name: "all of them", during: func(s *stopped) { s.begun(); s.tree(true, true); s.launchers() }},
		{name: "all of them, while the call begins", during: func(s *stopped) {
			s.soon(3 * time.Millisecond)
			s.launchers()
			s.tree(true, true)
		}},
	}
}

// endAfter is when the calls of these tests are ended, unless the limit does it.
const endAfter = 30 * time.Millisecond

// TestStoppedCallsEnd: whoever is stopped, and whenever, a call ends at its limit, when it is
// cancelled, and when its program ends; nothing of it is left, and the session goes on.
func TestStoppedCallsEnd(t *testing.T) {
	rounds := tier.Rounds(t, 2, 50)
	bothUsers(t, func(t *testing.T) {
		for name, o := range map[string]Options{"namespaces": {}, "landlock": {NoNamespaces: true}} {
			t.Run(name, func(t *testing.T) {
				seeds := tier.Rand(t)
				var all sync.WaitGroup // nearly all of it is waiting, so all at once
				for _, how := range stoppings() {
					backend := newCage(t, o)
					needCage(t, backend)
					if o.NoNamespaces {
						needNoNamespaces(t, backend)
					}
					c, ws := backend.(*cage), shortTemp(t)
					box := newBox(t, c, "strict", guard.Settings{AllowedWritePaths: []string{ws}})
					rnd := rand.New(rand.NewPCG(seeds.Uint64(), seeds.Uint64()))
					all.Go(func() {
						for round := range rounds {
							s := &stopped{t: t, c: c, box: box, ws: ws, byLimit: round == 0, rnd: rnd}
							if err := s.round(how, round); err != nil {
								t.Errorf("%s, round %d: %v", how.name, round, err)
								return
							}
						}
					})
				}
				all.Wait()
			})
		}
	})
}

// round stops and ends one call.
func (s *stopped) round(how stopping, round int) error {
	s.mark = fmt.Sprintf("STOP_MARK=%s-%d", filepath.Base(s.ws), round)
	for range 1 + round%3 { // how many wait then differs
		if err := s.works(); err != nil {
			return err
		}
	}
	if how.before != nil {
		how.before(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.ended = make(chan struct{})
	answer := make(chan error, 1)
	go func() {
		defer close(s.ended)
		answer <- s.call(ctx)
	}()
	if how.during != nil {
		how.during(s)
	}
	if !s.byLimit {
		time.AfterFunc(endAfter, cancel)
	}
	select {
	case err := <-answer:
		if err != nil {
			return err
		}
	case <-time.After(2 * time.Minute):
		return errors.New("the call does not end")
	}
	if left := processesOf(s.t, s.mark); left != nil {
		return fmt.Errorf("left: %v", left)
	}
	if err := s.works(); err != nil {
		return err
	}
	s.goOn()
	return nil
}

// call makes the call that must end.
func (s *stopped) call(ctx context.Context) error {
	spec := Spec{Argv: []string{"sh", "-c", `: > "$0"; exec sleep 1000`, s.told()}, Dir: s.ws, Env: []string{s.mark}}
	if s.byLimit {
		spec.Limits.WallSeconds = 1
	}
	p, err := s.box.Start(ctx, spec)
	var e Exit
	if err == nil {
		e, err = p.Wait()
	}
	switch {
	case err == nil && e.TimedOut == s.byLimit && e.Code != 0, errors.Is(err, errNoStart):
		return nil
	case !s.byLimit && (errors.Is(err, context.Canceled) || errors.Is(err, launch.ErrGone)):
		return nil
	}
	return fmt.Errorf("exit %+v, %w", e, err)
}

// goOn lets go on what still is stopped, for the next round.
func (s *stopped) goOn() {
	for _, l := range s.c.pool.All() {
		_ = l.Process.Signal(unix.SIGCONT)
		for _, i := range childrenOf(l.Process.Pid) {
			for _, pid := range append(childrenOf(i), i) {
				_ = unix.Kill(pid, unix.SIGCONT)
			}
		}
	}
}

// works makes calls until one succeeds. Those that take a process which was stopped while it
// waited, or the first that gets none, end at their limit. Later ones have more time, on a busy machine.
func (s *stopped) works() error {
	var last error
	for try := range 10 {
		var out bytes.Buffer
		p, err := s.box.Start(context.Background(), Spec{
			Argv: []string{"echo", "ok"}, Dir: s.ws, Stdout: &out, Limits: guard.Limits{WallSeconds: 1 + try},
		})
		var e Exit
		if err == nil {
			e, err = p.Wait()
		}
		if err == nil && out.String() == "ok\n" {
			return nil
		}
		last = fmt.Errorf("the session does not go on: %+v, %w", e, err)
	}
	return last
}
