package audit

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// disk is a file on a machine that may lose power: what was written since the last
// sync would be gone. It notes the order of what was done.
type disk struct {
	*os.File
	mu      sync.Mutex // guards what follows
	durable []byte     // what a loss of power would leave
	acts    []string
	broken  error // of the next syncs
}

func (d *disk) say(act string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acts = append(d.acts, act)
}

func (d *disk) Write(p []byte) (int, error) {
	d.say("write")
	return d.File.Write(p)
}

func (d *disk) Truncate(size int64) error {
	d.say("truncate")
	return d.File.Truncate(size)
}

func (d *disk) Sync() error {
	d.say("sync")
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return d.broken
	}
	text, err := os.ReadFile(d.Name())
	d.durable = text
	return errors.Join(err, d.File.Sync())
}

// lines is how many whole lines a loss of power would leave.
func (d *disk) lines() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return uint64(bytes.Count(d.durable, []byte("\n")))
}

// heads is a mirror that notes the lines which it was told of, and how many a loss
// of power would have left then.
type heads struct {
	Mirror
	disk  *disk
	saved []uint64
	early []uint64 // told of before they were durable
}

func (m *heads) Save(ctx context.Context, h Head, points []Checkpoint, synced bool) error {
	m.disk.say("mirror")
	m.saved = append(m.saved, h.Seq)
	if m.disk.lines() < h.Seq {
		m.early = append(m.early, h.Seq)
	}
	return m.Mirror.Save(ctx, h, points, synced)
}

// on puts the log of a place on such a disk.
func (p *place) on(d *disk) *heads {
	m := &heads{Mirror: p.mirror, disk: d}
	p.mirror = m
	p.testOnlyDisk = func(f *os.File) file {
		d.File = f
		return d
	}
	return m
}

// TestTheMirrorKnowsOnlyWhatIsDurable: else a log that lost its last lines with
// the power would read as one that somebody cut.
func TestTheMirrorKnowsOnlyWhatIsDurable(t *testing.T) {
	for _, sync := range []string{"interval", "always"} {
		t.Run(sync, func(t *testing.T) {
			p, d := newPlace(t), &disk{}
			p.Sync, p.SyncEvery = sync, time.Millisecond
			m := p.on(d)
			l := p.open(t)
			for i := range uint64(20) {
				if err := l.Append(t.Context(), tool.Note{Name: "operator"}); err != nil {
					t.Fatal(err)
				}
				if sync == "always" && (d.lines() < i+1 || m.saved[len(m.saved)-1] < i+1) {
					t.Errorf("line %d was acknowledged with %d durable, and mirrored %v", i+1, d.lines(), m.saved)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if len(m.early) > 0 || m.saved[len(m.saved)-1] != 21 || d.lines() != 21 {
				t.Errorf("mirrored %v, of which %v too early; %d lines are durable", m.saved, m.early, d.lines())
			}
		})
	}
}

// TestTheIntervalEndsWithASync: nobody else makes lines durable.
func TestTheIntervalEndsWithASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newPlace(t), &disk{}
		p.on(d)
		l := p.open(t)
		if err := l.Append(t.Context(), tool.Note{Name: "operator"}); err != nil {
			t.Fatal(err)
		}
		// 100 ms is what the documents promise.
		for want, after := range []time.Duration{99 * time.Millisecond, 2 * time.Millisecond} {
			time.Sleep(after)
			synctest.Wait()
			if got := d.lines(); got != uint64(want) {
				t.Errorf("%d lines are durable, want %d", got, want)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestATornLineIsGoneForGoodBeforeTheNext: if the cut could be lost with the
// power, the next line would stand behind half of another.
func TestATornLineIsGoneForGoodBeforeTheNext(t *testing.T) {
	p, d := newPlace(t), &disk{}
	p.crash(t, 3)
	p.rewrite(t, append(p.lines(t), []byte(`{"seq":4,"ti`)))
	p.on(d)
	l := p.open(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"truncate", "sync", "write"}; len(d.acts) < 3 || !slices.Equal(d.acts[:3], want) {
		t.Errorf("got %v, want %v first", d.acts, want)
	}
	q := newPlace(t)
	q.crash(t, 3)
	q.rewrite(t, append(q.lines(t), []byte(`{"seq":4,"ti`)))
	q.on(&disk{broken: errors.New("input/output error")})
	if _, err := Open(t.Context(), q.Options, q.mirror); err == nil || !strings.Contains(err.Error(), "torn line") {
		t.Errorf("a cut that is not durable: got %v", err)
	}
}

// TestASyncThatFailsEndsTheRecord: what the kernel dropped does not come back with
// the next sync, so nothing may be acknowledged after it.
func TestASyncThatFailsEndsTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newPlace(t), &disk{}
		p.Sync = "always"
		m := p.on(d)
		l := p.open(t)
		if err := l.Begin(t.Context(), sampleCall()); err != nil {
			t.Fatal(err)
		}
		d.fail(errors.New("input/output error"))
		err := l.Begin(t.Context(), sampleCall())
		if err == nil || !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("a line that is not durable: got %v", err)
		}
		d.fail(nil)
		time.Sleep(time.Minute) // in which it could try again
		synctest.Wait()
		if err := l.Begin(t.Context(), sampleCall()); err == nil {
			t.Error("the record goes on after a sync that failed")
		}
		if got := m.saved[len(m.saved)-1]; got != 1 {
			t.Errorf("the mirror was told of line %d, want 1", got)
		}
		if err := l.Close(); err == nil {
			t.Error("it was closed as if all were well")
		}
	})
}

// fail makes the next syncs fail, or no more.
func (d *disk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = err
}

// TestTheHeadIsWrittenOnceASecond, however many lines there are, and is never older than that.
func TestTheHeadIsWrittenOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		p.mirror = &memory{}
		l := p.open(t)
		before := l.newest().Count
		for range 100 {
			note(t, l)
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if now, lines := l.newest(), l.Status().Line; now.Count-before != 10 || lines-now.Seq > 11 {
			t.Errorf("%d heads in 10 s, the last for line %d of %d", now.Count-before, now.Seq, lines)
		}
		must(t, l.Close())
	})
}

// The head beside the key comes to the last line, also when no other line follows it.
func TestTheHeadCatchesUpByItself(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.KeepEvery = 200 * time.Millisecond
	l, db, err := w.open(t)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	defer l.Close()
	caught := func() bool {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if s := l.Status(); s.Kept == s.Line {
				return true
			}
		}
		return false
	}
	for range 5 { // the first is written at once, those in its 200 ms wait
		for range 2 {
			if err := l.Append(t.Context(), tool.Note{Name: "operator"}); err != nil {
				t.Fatal(err)
			}
			if err := l.waitSynced(t.Context(), l.Status().Line); err != nil {
				t.Fatal(err)
			}
		}
		if !caught() {
			t.Fatalf("the head stays behind: %+v", l.Status())
		}
	}
}
