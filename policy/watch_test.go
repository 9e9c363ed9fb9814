package policy

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/tier"
)

func TestWatchReloadsWhatChanged(t *testing.T) {
	dir := policyDir(t, acme(`findings contains {"id": "acme.x", "effect": "deny", "message": "no"}`))
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Options{Dirs: []string{dir}, Deadline: time.Hour})
		ctx, cancel := context.WithCancel(context.Background())
		results := make(chan error, 10)
		var wg sync.WaitGroup
		wg.Go(func() { e.Watch(ctx, func(err error) { results <- err }) })

		time.Sleep(3 * WatchInterval)
		synctest.Wait()
		if len(results) != 0 {
			t.Error("it was reloaded without a change")
		}
		writePolicy(t, filepath.Join(dir, "a.rego"), "package broken {")
		if err := <-results; err == nil {
			t.Error("a broken file was loaded")
		}
		if e.Status().Failure == nil {
			t.Error("the status does not show the failure")
		}
		writePolicy(t, filepath.Join(dir, "a.rego"), acme(rule))
		if err := <-results; err != nil {
			t.Error(err)
		}
		if s := e.Status(); s.Failure != nil {
			t.Errorf("the status still shows %+v", s.Failure)
		}
		cancel()
		wg.Wait()
	})
}

// TestAReloadThatNobodyWantsAnyMoreSaysNothing: a reload of the whole configuration ends the
// watch of the policies before it, also while that compares.
func TestAReloadThatNobodyWantsAnyMoreSaysNothing(t *testing.T) {
	dir := policyDir(t, acme(`findings contains {"id": "acme.x", "effect": "deny", "message": "no"}`))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		compared := false
		e := newEngine(t, Options{
			Dirs: []string{dir}, Deadline: time.Hour,
			Compare: func(ctx context.Context, _, _ Judge, _ bool) (Loosening, error) {
				compared = true
				cancel()
				return Loosening{}, ctx.Err()
			},
			Reloaded: func(err error) { t.Errorf("it counts: %v", err) },
		})
		var wg sync.WaitGroup
		wg.Go(func() { e.Watch(ctx, func(err error) { t.Errorf("it is told: %v", err) }) })
		synctest.Wait() // it has looked at the files
		writePolicy(t, filepath.Join(dir, "a.rego"), acme(rule))
		wg.Wait()
		if s := e.Status(); !compared || s.Failure != nil {
			t.Errorf("compared: %v, failure: %+v", compared, s.Failure)
		}
	})
}

// TestReloadUnderLoad decides while revisions alternate: each decision is exactly
// that of one of the two.
func TestReloadUnderLoad(t *testing.T) {
	dir := policyDir(t, acme(`findings contains {"id": "acme.a", "effect": "deny", "message": "a"}`))
	e := newEngine(t, Options{Dirs: []string{dir}, Deadline: time.Minute})
	first := e.Status().Revision
	writePolicy(t, filepath.Join(dir, "a.rego"),
		acme(`findings contains {"id": "acme.b", "effect": "ask", "message": "b"}`))
	if err := e.Reload(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	want := map[string]tool.Verdict{first: tool.Deny, e.Status().Revision: tool.Ask}

	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			c := newCall(t, tool.ModeAuto, "Todo", map[string]any{})
			for {
				select {
				case <-done:
					return
				default:
				}
				d, err := e.Decide(context.Background(), c)
				if v, ok := want[d.Revision]; err != nil || !ok || d.Verdict != v {
					t.Errorf("revision %s decided %s (%v)", d.Revision, d.Verdict, err)
					return
				}
			}
		})
	}
	for i := range tier.Rounds(t, 8, 200) {
		body := `findings contains {"id": "acme.a", "effect": "deny", "message": "a"}`
		if i%2 == 1 {
			body = `findings contains {"id": "acme.b", "effect": "ask", "message": "b"}`
		}
		writePolicy(t, filepath.Join(dir, "a.rego"), acme(body))
		if err := e.Reload(context.Background(), false); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
}

// What looks at a reload sees both revisions, and may keep the one before.
func TestAReloadMayBeRefused(t *testing.T) {
	dir := policyDir(t, acme(rule))
	var seen []string
	refuse := errors.New("not like this")
	e := newEngine(t, Options{Dirs: []string{dir}, Compare: func(_ context.Context, before, after Judge, loosen bool) (Loosening, error) {
		seen = append(seen, before.Revision()+" "+after.Revision())
		if !loosen {
			return Loosening{}, refuse
		}
		return Loosening{Looser: 1, Compared: 2, Examples: []string{"ls"}}, nil
	}})
	first := e.Status().Revision
	if err := e.Reload(t.Context(), false); err != nil || len(seen) > 0 {
		t.Errorf("the same again is looked at: %v, %q", err, seen)
	}
	writePolicy(t, filepath.Join(dir, "a.rego"), acme(strings.ReplaceAll(rule, "allow", "deny")))
	if err := e.Reload(t.Context(), false); !errors.Is(err, refuse) {
		t.Errorf("got %v", err)
	}
	if s := e.Status(); s.Revision != first || s.Failure == nil || s.Loosens != nil {
		t.Errorf("after a refusal: %+v", s)
	}
	if err := e.Reload(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	s := e.Status()
	if s.Revision == first || s.Failure != nil || s.Loosens.Words() != "loosens 1 of 2 recorded calls: ls" ||
		seen[len(seen)-1] != first+" "+s.Revision {
		t.Errorf("after it was accepted: %+v, seen %q", s, seen)
	}
}
