package undo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// A write that cannot be kept changes nothing.
func TestTheStoreHasBounds(t *testing.T) {
	c := &Config{Mode: "auto", KeepDays: 1, KeepBytes: 100, PerCallBytes: 60}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	w := openWorld(t, physicalDir(t), c)
	defer w.db.Close()
	fill := func(c string, n int) string { return strings.Repeat(c, n) }
	w.person("f", fill("a", 61))
	_, err := w.try("large", func(ctx context.Context, b sandbox.Box) error {
		return sandbox.WriteFile(ctx, b, w.use("f"), []byte("x"), 0o644)
	})
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "undo_call_too_large" {
		t.Errorf("got %v", err)
	}
	if w.read("f") != fill("a", 61) || len(w.tree()) != 2 {
		t.Errorf("something changed: %v", w.tree())
	}
	w.person("f", fill("a", 40))
	w.person("g", fill("a", 21))
	_, err = w.try("two", func(ctx context.Context, b sandbox.Box) error {
		w.must(sandbox.WriteFile(ctx, b, w.use("f"), []byte(fill("a", 40)), 0o644))
		return sandbox.WriteFile(ctx, b, w.use("g"), []byte("x"), 0o644)
	})
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "undo_call_too_large" || w.read("g") != fill("a", 21) {
		t.Errorf("a call replaces 61 bytes in two files: %v, %q", err, w.read("g"))
	}
	w.write("1", "f", fill("b", 40))
	w.write("2", "f", fill("c", 40))
	full := func(id string) {
		t.Helper()
		_, err := w.try(id, func(ctx context.Context, b sandbox.Box) error {
			return sandbox.WriteFile(ctx, b, w.use("f"), []byte("x"), 0o644)
		})
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "undo_store_full" || w.read("f") != fill("c", 40) {
			t.Errorf("got %v: %s", err, w.read("f"))
		}
		if c, err := w.j.call(t.Context(), "1"); err != nil || len(c.Changes) != 1 {
			t.Errorf("a call of this day is gone: %v", err)
		}
	}
	full("too soon")
	day := time.Now().Add(23 * time.Hour)
	w.j.now = func() time.Time { return day }
	full("within the day")
	day = day.Add(2 * time.Hour)
	w.write("3", "f", "d") // the first call must go
	if _, err := w.j.call(t.Context(), "1"); err == nil {
		t.Error("the oldest call is still there")
	}
	w.undo("u3", "3")
	if w.read("f") != fill("c", 40) {
		t.Errorf("got %s", w.read("f"))
	}
	if size, files := w.j.bytes(), must(os.ReadDir(w.root+"/undo/objects")); size > 100 || len(files) > 3 {
		t.Errorf("%d bytes in %d files", size, len(files))
	}
	w.j.now = func() time.Time { return day.Add(25 * time.Hour) }
	w.must(w.j.purgeOld(t.Context()))
	if size, files := w.j.bytes(), must(os.ReadDir(w.root+"/undo/objects")); size != 0 || len(files) != 0 {
		t.Errorf("%d bytes in %d files are older than a day", size, len(files))
	}
}

// TestWhatIsTooOldGoesWithinAnHour, without a call.
func TestWhatIsTooOldGoesWithinAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openWorld(t, physicalDir(t), defaults())
		defer w.close()
		w.person("f", "one")
		w.write("old", "f", "two")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.j.purgeLoop(ctx)
		}()
		time.Sleep(14*24*time.Hour - time.Minute)
		synctest.Wait()
		if _, err := w.j.call(t.Context(), "old"); err != nil {
			t.Errorf("before its days are over: %v", err)
		}
		time.Sleep(time.Hour + 2*time.Minute)
		synctest.Wait()
		if _, err := w.j.call(t.Context(), "old"); err == nil {
			t.Error("it is still there an hour later")
		}
		stop()
		<-ended
	})
}

// The store takes no more of its disk than it leaves: the oldest calls go, and a content that
// is too large is refused before it is copied.
func TestTheStoreLeavesRoomOnItsDisk(t *testing.T) {
	w := newWorld(t)
	fill := func(c string) string { return strings.Repeat(c, 40) }
	w.person("f", fill("a"))
	w.write("1", "f", fill("b"))
	w.write("2", "f", fill("c"))
	w.left = 20 // with 80 in the store it may have 50
	w.j.now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	w.write("3", "f", "d")
	for _, gone := range []string{"1", "2"} {
		if _, err := w.j.call(t.Context(), gone); err == nil {
			t.Errorf("call %s is still there", gone)
		}
	}
	w.left = 0
	w.person("g", fill("g"))
	_, err := w.try("4", func(ctx context.Context, b sandbox.Box) error {
		return sandbox.WriteFile(ctx, b, w.use("g"), []byte("x"), 0o644)
	})
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "undo_store_full" || w.read("g") != fill("g") {
		t.Errorf("on a full disk: %v, the file is %q", err, w.read("g"))
	}
	if n := w.j.coming; n != 0 {
		t.Errorf("%d bytes are still coming", n)
	}
}

// Who writes a file while it is copied cannot fill the disk with it.
func TestAFileThatGrowsIsNotCopiedForEver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	w := must(os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644))
	defer w.Close()
	const size = 100 << 10 // copied in several pieces
	must(w.WriteString(strings.Repeat("s", size)))
	r := must(os.Open(path))
	defer r.Close()
	s, err := stateOf(sandbox.Content{File: r}, growing{w})
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "file_changed" || s.Size > size+1 {
		t.Errorf("got %+v, %v", s, err)
	}
}

// Lines of the journal are in the database, and count as what they take there.
func TestLinesOfTheJournalHaveBounds(t *testing.T) {
	if a, b := usedBy(100_000), usedBy(100_002); a != 0 || b != 2*512 {
		t.Errorf("100,000 lines take %d bytes, two more %d", a, b)
	}
	w := newWorld(t)
	w.j.setConfig(Config{Mode: "auto", KeepDays: 14, KeepBytes: 1 << 20, PerCallBytes: 1 << 20})
	w.person("f", "one")
	w.command("first", func() {})
	w.j.lines.Store(freeLines + 1<<20/lineBytes)
	_, err := w.j.Keep(t.Context(), w.newCommand("full"))
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "undo_store_full" || !strings.Contains(e.Msg, "no room for more") {
		t.Errorf("a command begins: %v", err)
	}
	// What a command has changed is known, however much it is.
	w.j.lines.Store(freeLines + 1<<20/lineBytes - 1)
	c := w.command("last", func() { w.person("f", "two"); w.person("g", "two"); w.person("h", "two") })
	if c.Changes.Total != 3 || c.Changes.Made == nil || !c.Changes.Undo.Kept {
		t.Errorf("got %+v, %+v", c.Changes.List, c.Changes.Undo)
	}
	_, err = w.try("tool", func(ctx context.Context, b sandbox.Box) error {
		return sandbox.WriteFile(ctx, b, w.use("f"), []byte("three"), 0o644)
	})
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "undo_store_full" || w.read("f") != "two" {
		t.Errorf("got %v: %s", err, w.read("f"))
	}
	w.must(w.j.countLines(t.Context()))
	c = w.command("after", func() { w.person("f", "four") })
	if out := w.undo("undo", "after"); !c.Changes.Undo.Kept || len(out.Conflicts) > 0 || w.read("f") != "two" {
		t.Errorf("got %+v: %s", c.Changes.Undo, w.read("f"))
	}
}

// TestNobodyElseReadsWhatIsKept: neither a small content nor a large one, whatever the umask is.
func TestNobodyElseReadsWhatIsKept(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	w := newWorld(t)
	w.person("small", "a")
	w.person("large", strings.Repeat("b", maxInMemory+1))
	w.write("1", "small", "x", "large", "y")
	dir := w.root + "/undo/objects"
	modes := map[string]os.FileMode{dir: 0o700}
	for _, e := range must(os.ReadDir(dir)) {
		modes[filepath.Join(dir, e.Name())] = 0o600
	}
	if len(modes) != 3 {
		t.Errorf("%d contents are kept, want 2", len(modes)-1)
	}
	for path, want := range modes {
		if got := must(os.Stat(path)).Mode().Perm(); got != want {
			t.Errorf("%s: got mode %o, want %o", path, got, want)
		}
	}
}

// TestWhatHasNoRoomCanBeUndoneOnce: for what a command wrote there was no room, but what was there before is kept, and
// comes back. What the next command does to it is not kept, and its answer says so.
func TestWhatHasNoRoomCanBeUndoneOnce(t *testing.T) {
	for _, c := range []*Config{defaults(), walking()} {
		w := openWorld(t, physicalDir(t), c)
		w.person("f", "one")
		w.command("first", func() {})
		before := w.tree()
		w.left = 0
		full := w.command("full", func() {
			w.person("f", "two")
			w.person("new", "new")
		})
		if full.Changes.Total != 2 || !full.Changes.Undo.Kept {
			t.Errorf("got %+v, %+v", full.Changes.List, full.Changes.Undo)
		}
		w.close()
		w = openWorld(t, w.root, c)
		w.left = 0
		if c := w.command("nothing", func() {}); c.Changes.Total > 0 {
			t.Errorf("a command that does nothing: %+v", c.Changes.List)
		}
		next := w.command("next", func() { w.person("f", "three") })
		if next.Changes.Total != 1 || next.Changes.Undo.Kept {
			t.Errorf("got %+v, %+v", next.Changes.List, next.Changes.Undo)
		}
		w.person("f", "two")
		w.left = 1 << 40
		if out := w.undo("undo", "full"); len(out.Conflicts) > 0 || !sameTree(w.tree(), before) {
			t.Errorf("got %+v: %v", out, w.tree())
		}
		w.close()
	}
}

// TestAChangeOfWhatIsTooLargeIsTold: of a file that is not kept, and of one that is too large to be kept from now on.
func TestAChangeOfWhatIsTooLargeIsTold(t *testing.T) {
	config := defaults()
	config.PerCallBytes = 100
	w := openWorld(t, physicalDir(t), config)
	defer w.close()
	large := strings.Repeat("x", 101)
	w.person("large", large)
	w.person("small", "x")
	w.command("first", func() {})
	for _, tt := range []struct {
		name, file string
		change     func()
	}{
		{"changed", "large", func() { w.person("large", strings.ToUpper(large)) }},
		{"dated", "large", func() { w.must(os.Chtimes(w.work+"/large", time.Unix(1, 0), time.Unix(1, 0))) }},
		{"grown", "small", func() { w.person("small", large) }},
		{"made", "new", func() { w.person("new", large) }},
	} {
		c := w.command(tt.name, tt.change)
		if c.Changes.Total != 1 || c.Changes.Undo.Kept || !strings.Contains(c.Changes.Undo.Why, w.work+"/"+tt.file) {
			t.Errorf("%s: got %+v, %+v", tt.name, c.Changes.List, c.Changes.Undo)
		}
	}
	if c := w.command("nothing", func() {}); c.Changes.Total > 0 {
		t.Errorf("a command that does nothing: %+v", c.Changes.List)
	}
}
