package diskspace

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/limit"
	"github.com/sandboxd/sandboxd/tests/needs"
)

const mib = 1 << 20

// disks are two file systems, or one, and what sessions keep on them.
type disks struct {
	state, private limit.Space
	apart          bool
	sessions       map[string]Session
	files          map[string]int64
	measured       atomic.Int64
	tight          []bool
	err            error
}

func (d *disks) guard(perAccount int64) *Guard {
	return New(Options{
		State: "state", Private: "private", PerAccount: perAccount, Log: slog.New(slog.DiscardHandler),
		Sessions: func(context.Context) (map[string]Session, error) {
			d.measured.Add(1)
			all := map[string]Session{}
			for id, s := range d.sessions {
				all[id] = s
			}
			return all, d.err
		},
		Files: func([]string) (map[string]int64, error) { return d.files, nil },
		Tight: func(on bool) { d.tight = append(d.tight, on) },
		testOnlySpace: func(paths []string) map[uint64]limit.Space {
			if d.apart && paths[0] == "private" {
				return map[uint64]limit.Space{2: d.private}
			}
			return map[uint64]limit.Space{1: d.state}
		},
	})
}

func code(err error) string {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Code
	}
	return ""
}

// TestAnAccountKeepsAsMuchAsIsFreeForOthers, on the file system where it keeps it.
func TestAnAccountKeepsAsMuchAsIsFreeForOthers(t *testing.T) {
	disk := func(avail int64) limit.Space { return limit.Space{Size: 80 * mib, Avail: uint64(avail)} } // 10 MiB kept
	for _, tt := range []struct {
		name           string
		state, private limit.Space
		apart          bool
		files, values  int64
		perAccount, n  int64
		want           string
		ends           bool
	}{
		{name: "half", state: disk(40 * mib), files: 20 * mib, values: 10 * mib},
		{name: "more than half", state: disk(40 * mib), files: 20 * mib, values: 10*mib + 1, want: "account_disk"},
		{name: "two thirds", state: disk(25 * mib), files: 30*mib + 2, want: "account_disk", ends: true},
		{name: "next to nothing on a full disk", state: disk(0), files: mib / 2, want: "disk_reserve"},
		{name: "much on a full disk", state: disk(0), files: 2 * mib, want: "account_disk", ends: true},
		{name: "a large request", state: disk(40 * mib), n: 13*mib + 768<<10},
		{name: "too large a request", state: disk(40 * mib), n: 13*mib + 768<<10 + 1, want: "disk_reserve"},
		{name: "a small request", state: disk(10*mib + 100<<10), n: 50 << 10},
		{name: "too much for a small one", state: disk(10*mib + 99<<10), n: 50 << 10, want: "disk_reserve"},
		{name: "files elsewhere", state: disk(20 * mib), private: disk(40 * mib), apart: true, files: 30 * mib},
		{
			name: "many files elsewhere", state: disk(70 * mib), private: disk(40 * mib), apart: true, files: 31 * mib,
			want: "account_disk",
		},
		{
			name: "many variables", state: disk(20 * mib), private: disk(70 * mib), apart: true, values: 11 * mib,
			want: "account_disk",
		},
		{name: "only the state is full", state: disk(0), private: disk(70 * mib), apart: true, want: "disk_reserve"},
		{name: "files elsewhere are full", state: disk(70 * mib), private: disk(0), apart: true, want: "disk_reserve"},
		{name: "as a setting says", state: disk(20 * mib), files: 40 * mib, perAccount: 40 * mib},
		{
			name: "more than a setting says", state: disk(70 * mib), files: 5*mib + 1, perAccount: 5 * mib,
			want: "account_disk", ends: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &disks{
				state: tt.state, private: tt.private, apart: tt.apart,
				sessions: map[string]Session{"s": {Account: "a", Values: tt.values}, "o": {Account: "other"}},
				files:    map[string]int64{"s": tt.files},
			}
			g := d.guard(tt.perAccount)
			g.measure()
			err := g.Admit("a", "s", tt.n)
			if code(err) != tt.want || g.Over("s") != tt.ends {
				t.Errorf("got %v, ends %v, want %q, %v", err, g.Over("s"), tt.want, tt.ends)
			}
			if e, ok := errors.AsType[*tool.Error](err); ok && !strings.Contains(e.Hint, "sandboxd sessions delete ID") {
				t.Errorf("the hint does not help: %q", e.Hint)
			}
			if err := g.Admit("other", "o", 0); tt.want == "account_disk" && g.room(tt.state) > 0 && err != nil {
				t.Errorf("another account: %v", err)
			}
			if g.Over("o") || g.Over("unknown") {
				t.Error("another account ends too")
			}
		})
	}
}

// TestUseIsOfAllAccounts: what files and variables of all of them take.
func TestUseIsOfAllAccounts(t *testing.T) {
	d := &disks{
		state:    limit.Space{Size: 80 * mib, Avail: 60 * mib},
		sessions: map[string]Session{"s": {Account: "a", Values: 3}, "t": {Account: "b", Values: 4}},
		files:    map[string]int64{"s": 10, "t": 20},
	}
	g := d.guard(0)
	g.measure()
	if u := g.Use(); u.Files != 30 || u.Values != 7 {
		t.Errorf("files take %d, variables %d, want 30 and 7", u.Files, u.Values)
	}
}

// TestWhatWasSentCountsUntilItIsMeasured, and then what is there.
func TestWhatWasSentCountsUntilItIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disks{state: limit.Space{Size: 80 * mib, Avail: 70 * mib}}
		d.sessions = map[string]Session{"s": {Account: "a"}}
		g := d.guard(0)
		g.measure()
		for range 6 { // without a look at the database: no time has passed
			if err := g.Admit("a", "s", 10*mib); err != nil {
				t.Fatal(err)
			}
		}
		if got := code(g.Admit("a", "s", mib)); got != "" { // 60 MiB sent, 60 free
			t.Errorf("got %s", got)
		}
		if got := code(g.Admit("a", "s", mib)); got != "account_disk" {
			t.Errorf("got %q, want account_disk", got)
		}
		time.Sleep(time.Second)
		_ = g.Admit("a", "s", 0)
		g.work.Wait()
		if err := g.Admit("a", "s", 0); err != nil {
			t.Errorf("nothing of it was kept: %v", err)
		}
	})
}

// TestMeasuringCostsLittle: nothing while nobody asks, and only when something has changed or
// a minute has passed.
func TestMeasuringCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disks{
			state: limit.Space{Size: 800 * mib, Avail: 700 * mib}, sessions: map[string]Session{"s": {Account: "a"}},
		}
		g := d.guard(0)
		g.Begin()
		g.work.Wait()
		ask := func(times int, pause time.Duration) int64 {
			before := d.measured.Load()
			for range times {
				time.Sleep(pause)
				_ = g.Admit("a", "", 0)
				g.work.Wait()
			}
			return d.measured.Load() - before
		}
		if n := ask(1000, 50*time.Millisecond); n != 0 {
			t.Errorf("%d times in 50 s without a change", n)
		}
		if n := ask(1000, time.Second); n < 15 || n > 17 {
			t.Errorf("%d times in 1000 s, want one a minute", n)
		}
		d.state.Avail = 663 * mib // 600 MiB were above the reserve: a sixteenth is 37.5
		if n := ask(10, 50*time.Millisecond); n != 0 {
			t.Errorf("%d times after less than a sixteenth of the room is gone", n)
		}
		d.state.Avail = 662 * mib
		if n := ask(10, 50*time.Millisecond); n != 1 {
			t.Errorf("%d times after a sixteenth of the room is gone", n)
		}
		d.state.Avail = 600 * mib
		if n := ask(10, 50*time.Millisecond); n != 1 {
			t.Errorf("%d times after the disk has filled", n)
		}
		g.Forget("unknown")
		if n := ask(10, 50*time.Millisecond); n != 0 {
			t.Errorf("%d times after nothing was deleted", n)
		}
		g.Forget("s")
		if n := ask(10, 50*time.Millisecond); n != 1 {
			t.Errorf("%d times after a session was deleted", n)
		}
		before := d.measured.Load()
		time.Sleep(time.Hour)
		if n := d.measured.Load() - before; n != 0 {
			t.Errorf("%d times while nobody asked", n)
		}
	})
}

// TestADeletedSessionMakesRoomAtOnce, without a measuring.
func TestADeletedSessionMakesRoomAtOnce(t *testing.T) {
	d := &disks{
		state:    limit.Space{Size: 80 * mib, Avail: 20 * mib},
		sessions: map[string]Session{"s": {Account: "a", Values: 10 * mib}, "t": {Account: "a"}},
		files:    map[string]int64{"s": 40 * mib},
	}
	g := d.guard(0)
	g.measure()
	if got := code(g.Admit("a", "t", 0)); got != "account_disk" {
		t.Fatalf("got %q, want account_disk", got)
	}
	g.work.Wait() // what Admit began to measure
	d.state.Avail = 45 * mib
	delete(d.sessions, "s")
	delete(d.files, "s")
	g.Forget("s")
	g.Forget("s")
	if a := g.accounts["a"]; a.files != 0 || a.values != 0 {
		t.Errorf("it still keeps %+v", a)
	}
	if err := g.Admit("a", "t", 0); err != nil {
		t.Error(err)
	}
	g.work.Wait()
}

// TestWhoTookTheReserveWaits, and nobody else does.
func TestWhoTookTheReserveWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disks{state: limit.Space{Size: 80 * mib, Avail: 70 * mib}}
		g := d.guard(0)
		g.measure()
		if err := g.Admit("a", "new", 0); err != nil { // a session that was not measured yet
			t.Fatal(err)
		}
		g.Took("new")
		g.Took("unknown")
		if got := code(g.Admit("a", "other", 0)); got != "account_disk" {
			t.Errorf("got %q, want account_disk", got)
		}
		if err := g.Admit("b", "", 0); err != nil {
			t.Error(err)
		}
		g.measure()
		if got := code(g.Admit("a", "other", 0)); got != "account_disk" {
			t.Errorf("after a measuring: %q, want account_disk", got)
		}
		time.Sleep(5*time.Second - time.Millisecond)
		if got := code(g.Admit("a", "other", 0)); got != "account_disk" {
			t.Errorf("after nearly five seconds: %q, want account_disk", got)
		}
		time.Sleep(time.Millisecond)
		if err := g.Admit("a", "other", 0); err != nil {
			t.Error(err)
		}
		g.work.Wait()
	})
}

// TestASessionThatComesWhileOthersAreMeasured is known all the same, and one that has gone is not.
func TestASessionThatComesWhileOthersAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disks{state: limit.Space{Size: 80 * mib, Avail: 70 * mib}, sessions: map[string]Session{"old": {Account: "b"}}}
		g := d.guard(0)
		g.measure()
		sessions := g.o.Sessions
		g.o.Sessions = func(ctx context.Context) (map[string]Session, error) {
			all, err := sessions(ctx)
			if err := g.Admit("a", "new", 0); err != nil {
				t.Error(err)
			}
			return all, err
		}
		d.sessions = nil
		g.measure()
		g.Took("new")
		g.Took("old")
		if got := code(g.Admit("a", "new", 0)); got != "account_disk" {
			t.Errorf("the account of the new session: %q, want account_disk", got)
		}
		if err := g.Admit("b", "", 0); err != nil {
			t.Errorf("the account of a session that has gone: %v", err)
		}
		g.work.Wait()
	})
}

// TestTheDatabaseIsTold when the reserve is touched, once, and values of agents and operators
// are refused that need more than is there.
func TestTheDatabaseIsTold(t *testing.T) {
	d := &disks{state: limit.Space{Size: 80 * mib, Avail: 70 * mib}}
	g := d.guard(0)
	for _, avail := range []uint64{70, 9, 9, 70} {
		d.state.Avail = avail * mib
		g.Look()
		want := ""
		if avail == 9 {
			want = "disk_reserve"
		}
		if got := code(g.Room(mib)); got != want {
			t.Errorf("%d MiB: %q, want %q", avail, got, want)
		}
		if err := g.Room(1000); err != nil {
			t.Error(err)
		}
	}
	g.work.Wait()
	if len(d.tight) != 3 || d.tight[0] || !d.tight[1] || d.tight[2] {
		t.Errorf("told %v", d.tight)
	}
	if u := g.Use(); u.Refused != [reasons]uint64{2, 0} || u.Low || !u.Shared {
		t.Errorf("got %+v", u)
	}
	g.work.Wait()
}

// TestTheLogIsCopiedOnceMore: what the database has in its log needs room again, and a large value does not take the
// last of it.
func TestTheLogIsCopiedOnceMore(t *testing.T) {
	for _, tt := range []struct {
		avail, uncopied int64
		want            string
	}{
		{16 << 10, 0, ""},
		{16<<10 - 1, 0, "disk_reserve"},
		{20 << 10, 4 << 10, ""},
		{20 << 10, 4<<10 + 1, "disk_reserve"},
	} {
		d := &disks{state: limit.Space{Size: 80 * mib, Avail: 10*mib + uint64(tt.avail)<<8}}
		g := d.guard(0)
		g.o.Uncopied = func() int64 { return tt.uncopied << 8 }
		if got := code(g.Room(3 * mib / 4)); got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
		if got := code(g.Admit("a", "", 3*mib/4)); got != tt.want {
			t.Errorf("a request, %+v: got %q", tt, got)
		}
		g.work.Wait()
	}
}

// TestWhatCannotBeMeasuredStays as it was known, and the disk is looked at all the same.
func TestWhatCannotBeMeasuredStays(t *testing.T) {
	d := &disks{
		state:    limit.Space{Size: 80 * mib, Avail: 20 * mib},
		sessions: map[string]Session{"s": {Account: "a", Values: 20 * mib}},
	}
	g := d.guard(0)
	g.measure()
	d.err, d.sessions = errors.New("the database is busy"), nil
	g.measure()
	if got := code(g.Admit("a", "s", 0)); got != "account_disk" {
		t.Errorf("got %q, want account_disk", got)
	}
	g.work.Wait()
}

func TestNoGuardRefusesNothing(t *testing.T) {
	var g *Guard
	g.Look()
	g.Forget("s")
	g.Close()
	if err := errors.Join(g.Admit("a", "s", 1<<50), g.Room(1<<50)); err != nil {
		t.Error(err)
	}
}

// TestWhatIsFreeIsWithTheReserve: the reserve is told beside it, and not taken off.
func TestWhatIsFreeIsWithTheReserve(t *testing.T) {
	g := (&disks{state: limit.Space{Size: 80 * mib, Avail: 60 * mib}}).guard(0)
	defer g.Close()
	if u := g.Use(); u.Free != 60*mib || u.Reserve != 10*mib {
		t.Errorf("free %d, reserve %d; want 60 MiB, and an eighth of 80 MiB", u.Free, u.Reserve)
	}
}

// Who asks how the disks are is told of files that got no blocks ahead.
func TestUseSaysWhatGetsNoBlocks(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	g := (&disks{state: limit.Space{Avail: 1 << 40, Size: 1 << 41}}).guard(0)
	defer g.Close()
	if u := g.Use(); u.Unheld != "" {
		t.Errorf("without files: %q", u.Unheld)
	}
	g.work.Wait()
	g.held.paths, g.upkept = []string{link}, time.Time{}
	g.attend()
	g.work.Wait()
	if u := g.Use(); !strings.HasPrefix(u.Unheld, "link: ") {
		t.Errorf("with a link: %q", u.Unheld)
	}
}

// TestAFileGrowsOnAFullDisk: it has blocks beyond its end, its size and content stay.
func TestAFileGrowsOnAFullDisk(t *testing.T) {
	needs.Root(t, "to mount")
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		needs.Missing(t, "mount a file system of its own: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path, link := filepath.Join(dir, "log"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(path, []byte("line\n"), 0o600), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	h := &held{paths: []string{path, filepath.Join(dir, "absent"), link}}
	if err := h.fill(mib); err == nil || !strings.Contains(err.Error(), "link: ") || strings.Contains(err.Error(), "absent") {
		t.Errorf("got %v, want that a link is not followed", err)
	}
	h.paths = h.paths[:2]
	if text, err := os.ReadFile(path); err != nil || string(text) != "line\n" {
		t.Errorf("the file is %q, %v", text, err)
	}
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(fill, io.LimitReader(zeros{}, 8*mib)); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v, want no space", err)
	}
	_ = fill.Close()
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Write(make([]byte, mib-100)); err != nil {
		t.Errorf("the file cannot grow: %v", err)
	}
	if err := h.fill(mib); err != nil { // there was more before
		t.Errorf("a full disk is an error: %v", err)
	}
	if err := os.Remove(fill.Name()); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(other, nil, 0o600), os.Rename(other, path), h.fill(mib)); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Blocks*512 < mib || st.Size != 0 {
		t.Errorf("another file of that name has %d bytes and %d of blocks, %v", st.Size, st.Blocks*512, err)
	}
	h.close()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
