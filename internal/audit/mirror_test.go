package audit

import (
	"context"
	"crypto/ed25519"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// TestTheTailOfARunningDaemonIsMirrored: a cut in the middle of a run is seen
// without a checkpoint.
func TestTheTailOfARunningDaemonIsMirrored(t *testing.T) {
	p := newPlace(t)
	p.Sync = "always"
	l := p.open(t)
	for range 5 {
		if err := l.Append(t.Context(), tool.Note{Name: "operator"}); err != nil {
			t.Fatal(err)
		}
	}
	p.rewrite(t, p.lines(t)[:3])
	if rep := p.verify(t); rep.Bad == nil || rep.Bad.Line != 4 {
		t.Errorf("got %+v, want line 4", rep.Bad)
	}
}

// brokenMirror fails while it is told to.
type brokenMirror struct {
	Mirror
	mu  sync.Mutex
	err error
}

func (m *brokenMirror) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *brokenMirror) Save(ctx context.Context, h Head, c []Checkpoint, synced bool) error {
	m.mu.Lock()
	err := m.err
	m.mu.Unlock()
	if err != nil {
		return err
	}
	return m.Mirror.Save(ctx, h, c, synced)
}

func TestAFailingMirrorStopsCallsUntilItWorks(t *testing.T) {
	p := newPlace(t)
	m := &brokenMirror{Mirror: p.mirror}
	p.mirror, p.Sync, p.SyncEvery = m, "always", time.Millisecond
	l := p.open(t)
	m.set(errors.New("database is full"))
	if err := l.Begin(t.Context(), sampleCall()); err == nil || !strings.Contains(err.Error(), "database is full") {
		t.Fatalf("got %v, want the error of the mirror", err)
	}
	if err := l.Begin(t.Context(), sampleCall()); err == nil {
		t.Fatal("a call began while the record was not durable")
	}
	m.set(nil)
	if err := l.waitSynced(t.Context(), 1); err != nil && !strings.Contains(err.Error(), "full") {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for l.Begin(t.Context(), sampleCall()) != nil {
		if time.Now().After(deadline) {
			t.Fatal("the log did not recover when the mirror did")
		}
	}
	if rep := p.verify(t); rep.Bad != nil {
		t.Error(rep.Bad)
	}
}

// TestTheMirrorIsSigned: who writes the database and the file, and has not the
// key, cannot make a shorter or another log look whole.
func TestTheMirrorIsSigned(t *testing.T) {
	for _, tt := range []struct {
		name  string
		forge func(t *testing.T, p *place, seen *Mirrored)
	}{
		{"the head moved back with the file", func(t *testing.T, p *place, seen *Mirrored) {
			lines := p.lines(t)[:3]
			p.rewrite(t, lines)
			e, err := decode(lines[2])
			must(t, err)
			*seen = Mirrored{Head: Head{Seq: 3, Hash: e.Hash, Signature: seen.Head.Signature}}
		}},
		{"the head without a signature", func(_ *testing.T, _ *place, seen *Mirrored) { seen.Head.Signature = "" }},
		{"the head signed with another key", func(t *testing.T, _ *place, seen *Mirrored) {
			_, other, err := ed25519.GenerateKey(nil)
			must(t, err)
			seen.Head.Signature = sign(other, forHead, seen.Head.Seq, seen.Head.Hash)
		}},
		{"the signature of a checkpoint for that of the head", func(_ *testing.T, _ *place, seen *Mirrored) {
			seen.Head.Signature = seen.Checkpoints[0].Signature
		}},
		{"the head of another line", func(_ *testing.T, _ *place, seen *Mirrored) { seen.Head.Seq-- }},
		{"a checkpoint that is not signed", func(_ *testing.T, _ *place, seen *Mirrored) {
			seen.Checkpoints[0].Signature = ""
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.fill(t, 9) // and a checkpoint
			seen, err := p.mirror.Load(t.Context())
			must(t, err)
			tt.forge(t, &p, &seen)
			p.mirror = forged{seen}
			if rep := p.verify(t); rep.Bad == nil || !strings.Contains(rep.Bad.Reason, "not signed with this key") {
				t.Errorf("verify: got %+v, want a database that is not signed", rep.Bad)
			}
			if _, err := Open(t.Context(), p.Options, p.mirror); !errors.Is(err, ErrTampered) {
				t.Errorf("open: got %v, want ErrTampered", err)
			}
		})
	}
}

// forged is a database with these rows.
type forged struct{ rows Mirrored }

func (f forged) Load(context.Context) (Mirrored, error) { return f.rows, nil }

func (f forged) Save(context.Context, Head, []Checkpoint, bool) error { return nil }

func (f forged) Replace(context.Context, Mirrored) error { return nil }
