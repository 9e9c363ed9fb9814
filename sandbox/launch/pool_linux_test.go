package launch

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLaunchersThatRestAreEnded: those that have rested longest when there are too many, those of which a session takes
// another one, and those that nobody uses. One that works stays.
func TestLaunchersThatRestAreEnded(t *testing.T) {
	p := newPool(t)
	if p.Max != 64 {
		t.Errorf("%d launchers may rest, want 64", p.Max)
	}
	p.Max = 2
	ws := t.TempDir()
	get := func(session, key string, replaces bool) *Launcher {
		t.Helper()
		c := newConfig(t, key, ws)
		c.Replaces = replaces
		l, err := p.Get(t.Context(), session, c, Entry{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a, b := get("a", "a", false), get("b", "b", false)
	b.Release()
	a.Release()
	c := get("c", "c", false) // b has rested longer than a
	<-b.Ended
	if a.Gone() || c.Gone() {
		t.Errorf("ended are a: %v, c: %v", a.Gone(), c.Gone())
	}
	p.RetireUnused(0)
	<-a.Ended
	if c.Gone() {
		t.Error("one that works was ended")
	}
	other := get("c", "d", true)
	if c.Gone() {
		t.Error("one that works was replaced")
	}
	c.Release()
	p.Max = 8 // there is room for it
	third := get("c", "e", true)
	<-c.Ended
	if other.Gone() || third.Gone() {
		t.Error("one that works was replaced")
	}
	other.Release()
	third.Release()
	p.Close()
	_, err := p.Get(t.Context(), "a", newConfig(t, "a", ws), Entry{})
	if err == nil || !strings.Contains(err.Error(), "the sandbox backend is closed") {
		t.Errorf("after Close: got %v", err)
	}
}

// TestALauncherThatNobodyUsesEndsAfterFiveMinutes: and within half a minute more.
func TestALauncherThatNobodyUsesEndsAfterFiveMinutes(t *testing.T) {
	of := newPool(t)
	l, err := of.Get(t.Context(), "a", newConfig(t, "a", t.TempDir()), Entry{})
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(nil)
		defer p.Close()
		l.mu.Lock()
		l.used = time.Now()
		l.mu.Unlock()
		p.mu.Lock()
		p.launchers["a"] = l
		p.mu.Unlock()
		time.Sleep(5*time.Minute - time.Second)
		synctest.Wait()
		if l.Gone() {
			t.Error("it has ended too early")
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if !l.Gone() {
			t.Error("it has not ended")
		}
	})
}
