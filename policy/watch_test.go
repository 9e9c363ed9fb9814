package policy

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/tool"
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

// TestReloadUnderLoad decides while revisions alternate: each decision is exactly
// that of one of the two.
func TestReloadUnderLoad(t *testing.T) {
	dir := policyDir(t, acme(`findings contains {"id": "acme.a", "effect": "deny", "message": "a"}`))
	e := newEngine(t, Options{Dirs: []string{dir}, Deadline: time.Minute})
	first := e.Status().Revision
	writePolicy(t, filepath.Join(dir, "a.rego"), acme(`findings contains {"id": "acme.b", "effect": "ask", "message": "b"}`))
	if err := e.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := map[string]tool.Verdict{first: tool.Deny, e.Status().Revision: tool.Ask}

	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			c := newCall(t, ModeAuto, "Todo", map[string]any{})
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
	for i := range 20 {
		body := `findings contains {"id": "acme.a", "effect": "deny", "message": "a"}`
		if i%2 == 1 {
			body = `findings contains {"id": "acme.b", "effect": "ask", "message": "b"}`
		}
		writePolicy(t, filepath.Join(dir, "a.rego"), acme(body))
		if err := e.Reload(context.Background()); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
}
