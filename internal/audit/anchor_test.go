package audit

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// shipped is a program that takes heads, and fails while it is told to.
type shipped struct {
	mu    sync.Mutex
	heads []Kept  // guarded by mu
	fails error   // guarded by mu
	told  []error // guarded by mu
	hang  bool    // guarded by mu
}

func (s *shipped) anchor() Anchor {
	return Anchor{
		Every: time.Minute,
		Told: func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.told = append(s.told, err)
		},
		Ship: func(ctx context.Context, head []byte) error {
			s.mu.Lock()
			hang := s.hang
			s.mu.Unlock()
			if hang {
				select {} // a disk of another host
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.fails != nil {
				return s.fails
			}
			var k Kept
			err := json.Unmarshal(head, &k)
			s.heads = append(s.heads, k)
			return err
		},
	}
}

func (s *shipped) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func note(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Append(t.Context(), tool.Note{Name: "operator"}); err != nil {
		t.Fatal(err)
	}
}

// TestAnAnchorFollows: at most once in its time, only when there is something new, and at the end.
// What it gets is signed.
func TestAnAnchorFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newPlace(t), &shipped{}
		p.mirror, p.Anchor = &memory{}, s.anchor()
		l := p.open(t)
		for range 3 {
			for range 100 {
				note(t, l)
			}
			time.Sleep(70 * time.Second)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		note(t, l)
		lines, kept, anchored := gauge(t, l, "audit_lines"), gauge(t, l, "audit_kept_line"), gauge(t, l, "audit_anchored_line")
		if lines != 301 || kept < 300 || kept > 301 || anchored != 300 {
			t.Errorf("of %v lines the key knows %v, and the anchor %v", lines, kept, anchored)
		}
		must(t, l.Close())
		var shipped []uint64
		for _, k := range s.heads {
			shipped = append(shipped, k.Seq)
			if !k.signedBy(public(l.key)) {
				t.Errorf("line %d is not signed", k.Seq)
			}
		}
		if len(shipped) != 4 || shipped[0] != 100 || shipped[2] != 300 || shipped[3] != 302 {
			t.Errorf("anchored %v, want each hundred and the end", shipped)
		}
	})
}

// TestAFailingAnchorIsTold: once, in the status and in the metrics; calls go on. When it works
// again that is told too.
func TestAFailingAnchorIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newPlace(t), &shipped{}
		p.mirror, p.Anchor = &memory{}, s.anchor()
		s.fail(errors.New("the other host is down"))
		l := p.open(t)
		note(t, l)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if st := l.Status().Anchor; st.Failing == "" || len(s.told) != 1 || failing(t, l) != 1 {
			t.Errorf("status %+v, told %v, metric %v", st, s.told, failing(t, l))
		}
		s.fail(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if st := l.Status().Anchor; st.Failing != "" || st.Line != 1 || len(s.told) != 2 || s.told[1] != nil ||
			failing(t, l) != 0 {
			t.Errorf("afterwards: status %+v, told %v", st, s.told)
		}
		must(t, l.Close())
	})
}

func failing(t *testing.T, l *Log) float64 {
	t.Helper()
	return gauge(t, l, "audit_anchor_failing")
}

func gauge(t *testing.T, l *Log, name string) float64 {
	t.Helper()
	for _, g := range l.Part().Metrics {
		if g.Name == name {
			return g.Value()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// TestAnAnchorThatHangsKeepsNobody: neither calls nor the stop.
func TestAnAnchorThatHangsKeepsNobody(t *testing.T) {
	p, s := newPlace(t), &shipped{hang: true}
	p.mirror, p.Anchor = &memory{}, s.anchor()
	p.Anchor.patience = time.Millisecond
	l := p.open(t)
	note(t, l)
	must(t, l.Close())
	if st := l.Status().Anchor; st.Failing == "" {
		t.Error("nothing says that the last line is not anchored")
	}
	if rep := p.verify(t); rep.Bad != nil {
		t.Error(rep.Bad)
	}
}

// TestAnAnchorElsewhereIsANewOne: the head beside the key answers for the file that it knows.
func TestAnAnchorElsewhereIsANewOne(t *testing.T) {
	p := newPlace(t)
	dir := t.TempDir()
	p.Anchor = Anchor{File: filepath.Join(dir, "one")}
	p.fill(t, 3)
	p.Anchor.File = filepath.Join(dir, "two")
	p.fill(t, 3)
	for _, name := range []string{"one", "two"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	must(t, os.Remove(p.Anchor.File))
	if _, err := Open(t.Context(), p.Options, p.mirror); !errors.Is(err, ErrTampered) {
		t.Errorf("without the second: %v", err)
	}
}

// failingHead is a disk on which the head cannot be written.
type failingHead struct {
	headFile
	mu    sync.Mutex
	fails error // guarded by mu
}

func (f *failingHead) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.fails, f.headFile.Sync())
}

// TestNothingRunsWithoutTheHead: the record could be shortened unseen. When it can be written
// again, calls go on.
func TestNothingRunsWithoutTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		p.mirror = &memory{}
		l := p.open(t)
		disk := &failingHead{headFile: l.keeper.file, fails: errors.New("no space left")}
		l.keeper.file = disk
		must(t, l.Begin(t.Context(), sampleCall()))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := l.Begin(t.Context(), sampleCall()); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("got %v, want the error of the disk", err)
		}
		disk.mu.Lock()
		disk.fails = nil
		disk.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		must(t, l.Begin(t.Context(), sampleCall()))
		must(t, l.Close())
		if rep := p.verify(t); rep.Bad != nil {
			t.Error(rep.Bad)
		}
	})
}

// TestATornHeadLeavesTheOneBefore: as a crash in the middle of its write does.
func TestATornHeadLeavesTheOneBefore(t *testing.T) {
	p := newPlace(t)
	p.crash(t, 5)
	text, err := os.ReadFile(p.HeadPath())
	must(t, err)
	key, err := readKey(p.KeyFile)
	must(t, err)
	newest, err := readKept(p.HeadPath(), public(key))
	must(t, err)
	at := int(newest.Count%2) * slotSize
	clear(text[at+slotSize-300 : at+slotSize])
	must(t, os.WriteFile(p.HeadPath(), text, 0o600))
	older, err := readKept(p.HeadPath(), public(key))
	if err != nil || older.Count != newest.Count-1 {
		t.Fatalf("got %+v, %v, want the one before %+v", older, err, newest)
	}
	p.fill(t, 2)
	if rep := p.verify(t); rep.Bad != nil {
		t.Error(rep.Bad)
	}
}
