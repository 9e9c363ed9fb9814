package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// moment is what a loss of power at some time could leave, of each part: what was synced, what
// was only written, and what lies between.
type moment struct {
	logs  [][]byte
	rows  []Mirrored
	heads [][]byte
}

// machine is a record on disks that notes every moment.
type machine struct {
	place
	disk disk

	mu      sync.Mutex // guards what follows
	synced  Mirrored   // of the database
	saved   Mirrored
	head    []byte
	moments []moment
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{place: newPlace(t)}
	m.SyncEvery, m.KeepEvery, m.testOnlyCheckpoints = time.Microsecond, time.Microsecond, 4
	m.testOnlyDisk = func(f *os.File) file {
		m.disk.File = f
		return loggedDisk{&m.disk, m}
	}
	m.mirror = m
	return m
}

// note remembers the present moment. It is called before and after whatever is written.
func (m *machine) note() {
	m.mu.Lock()
	defer m.mu.Unlock()
	written, _ := os.ReadFile(m.Path())
	m.disk.mu.Lock()
	durable := slices.Clone(m.disk.durable)
	m.disk.mu.Unlock()
	now := moment{
		logs: [][]byte{durable, written}, rows: []Mirrored{m.synced, m.saved}, heads: [][]byte{m.head},
	}
	if bytes.HasPrefix(written, durable) {
		now.logs = append(now.logs, written[:len(durable)+(len(written)-len(durable))/2])
	}
	if head, err := os.ReadFile(m.HeadPath()); err == nil && !bytes.Equal(head, m.head) {
		now.heads = append(now.heads, head)
		m.head = head
	}
	m.moments = append(m.moments, now)
}

type loggedDisk struct {
	*disk
	m *machine
}

func (d loggedDisk) Write(p []byte) (int, error) {
	defer d.m.note()
	return d.disk.Write(p)
}

func (d loggedDisk) Sync() error {
	d.m.note()
	defer d.m.note()
	return d.disk.Sync()
}

func (m *machine) Load(context.Context) (Mirrored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saved, nil
}

func (m *machine) Save(_ context.Context, h Head, points []Checkpoint, synced bool) error {
	m.note()
	m.mu.Lock()
	m.saved = Mirrored{h, append(slices.Clone(m.saved.Checkpoints), points...)}
	if synced {
		m.synced = m.saved
	}
	m.mu.Unlock()
	m.note()
	return nil
}

func (m *machine) Replace(context.Context, Mirrored) error { return errors.New("not here") }

// TestALossOfPowerIsNoTampering: whatever the disks hold at whatever moment, the record opens,
// verifies, and goes on.
func TestALossOfPowerIsNoTampering(t *testing.T) {
	m := newMachine(t)
	for range 3 { // starts and clean stops
		l := m.open(t)
		m.note()
		for i := range 6 {
			if err := l.Append(t.Context(), tool.Note{Name: "operator", Message: fmt.Sprint("event ", i)}); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				if err := l.waitSynced(t.Context(), l.Status().Line); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		m.note()
	}
	tried := 0
	p := place{Options{Dir: t.TempDir(), KeyFile: filepath.Join(t.TempDir(), "audit.key"), testOnlyCheckpoints: 4}, nil}
	key, err := os.ReadFile(m.KeyFile)
	must(t, err)
	must(t, os.WriteFile(p.KeyFile, key, 0o600))
	for i, now := range m.moments {
		for _, log := range now.logs {
			for _, rows := range now.rows {
				for _, head := range now.heads {
					if head == nil {
						continue // before the first key
					}
					must(t, os.WriteFile(p.Path(), log, 0o600))
					must(t, os.WriteFile(p.HeadPath(), head, 0o600))
					p.mirror = &memory{rows: rows}
					if err := goesOn(t, p, tried%7 == 0); err != nil {
						t.Fatalf("moment %d of %d, %d bytes of log, database at %d: %v", i, len(m.moments), len(log),
							rows.Head.Seq, err)
					}
					tried++
				}
			}
		}
	}
	if tried < 200 {
		t.Errorf("only %d losses were tried", tried)
	}
}

// memory is a mirror that survives nothing.
type memory struct {
	mu   sync.Mutex
	rows Mirrored // guarded by mu
}

func (m *memory) Load(context.Context) (Mirrored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows, nil
}

func (m *memory) Save(_ context.Context, h Head, points []Checkpoint, _ bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows = Mirrored{h, append(slices.Clone(m.rows.Checkpoints), points...)}
	return nil
}

func (m *memory) Replace(_ context.Context, all Mirrored) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows = all
	return nil
}

// goesOn verifies a record and opens it. With write, it adds a line and verifies it again.
func goesOn(t *testing.T, p place, write bool) error {
	t.Helper()
	if rep, err := Verify(t.Context(), p.Options, p.mirror); err != nil || rep.Bad != nil {
		return fmt.Errorf("verify: %v, %w", rep.Bad, err)
	}
	l, err := Open(t.Context(), p.Options, p.mirror)
	if err != nil {
		return err
	}
	if !write {
		l.kill(t)
		return nil
	}
	err = l.Append(t.Context(), tool.Note{Name: "start"})
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	if rep, err := Verify(t.Context(), p.Options, p.mirror); err != nil || rep.Bad != nil {
		return fmt.Errorf("verify afterwards: %v, %w", rep.Bad, err)
	}
	return nil
}

// churn is a daemon that starts and stops all the time.
func churn(dir string) {
	ctx := context.Background()
	o := Options{
		Dir: dir, KeyFile: filepath.Join(dir, "key", "audit.key"), SyncEvery: 100 * time.Microsecond,
		KeepEvery: 300 * time.Microsecond, testOnlyCheckpoints: 5,
		Anchor: Anchor{File: filepath.Join(dir, "anchor"), Every: time.Millisecond},
	}
	for {
		path := filepath.Join(dir, "state.db")
		if err := o.CheckDatabase(path); err != nil {
			panic(err)
		}
		db, err := store.Open(ctx, store.Options{Path: path}, Schema())
		if err != nil {
			panic(err)
		}
		l, err := Open(ctx, o, NewMirror(db))
		if err != nil {
			panic(err)
		}
		fmt.Println("open")
		for range 7 {
			if err := l.Append(ctx, tool.Note{Name: "operator"}); err != nil {
				panic(err)
			}
		}
		if err := errors.Join(l.Close(), db.Close()); err != nil {
			panic(err)
		}
	}
}

// TestKillAtAnyMoment: a daemon that opens, writes and closes is killed again and again. It never
// takes what that left for tampering.
func TestKillAtAnyMoment(t *testing.T) {
	dir := t.TempDir()
	for round := range 60 {
		cmd, out, _ := child(t, "AUDIT_TEST_CHURN="+dir)
		opened, err := out.ReadString('\n')                                // or it was refused, and said why
		time.Sleep(time.Duration(round*round%97) * 200 * time.Microsecond) // which moment does not matter
		_ = cmd.Process.Kill()
		err = errors.Join(err, cmd.Wait())
		if exit, ok := errors.AsType[*exec.ExitError](err); opened != "open\n" || !ok || exit.Exited() {
			t.Fatalf("round %d: it said %q, and ended with %v", round, opened, err)
		}
	}
	o := Options{
		Dir: dir, KeyFile: filepath.Join(dir, "key", "audit.key"), Anchor: Anchor{File: filepath.Join(dir, "anchor")},
	}
	rep, err := Verify(t.Context(), o, MirrorAt(filepath.Join(dir, "state.db")))
	if err != nil || rep.Bad != nil || rep.Lines < 60 {
		t.Errorf("got %+v, %v", rep, err)
	}
}
