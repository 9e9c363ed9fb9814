package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// writeForever is a daemon under load: 8 writers say each begin that was
// acknowledged, until the process is killed.
func writeForever(dir string) {
	ctx := context.Background()
	o := Options{Dir: dir, KeyFile: filepath.Join(dir, "key", "audit.key"), SyncEvery: 5 * time.Millisecond}
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(dir, "state.db")}, Schema())
	if err != nil {
		panic(err)
	}
	l, err := Open(ctx, o, NewMirror(db))
	if err != nil {
		panic(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				c := sampleCall()
				if err := l.Begin(ctx, c); err != nil {
					panic(err)
				}
				fmt.Println(c.ID)
				if err := l.End(ctx, c); err != nil {
					panic(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestKillUnderLoad: after kill -9 the log verifies, opens again, and holds every
// begin that was acknowledged.
func TestKillUnderLoad(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, KeyFile: filepath.Join(dir, "key", "audit.key")}
	acknowledged := map[string]bool{}
	for round := range 4 {
		cmd, out, _ := child(t, "AUDIT_TEST_WRITE="+dir)
		for range 300 + 700*round {
			id, err := out.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			acknowledged[strings.TrimSpace(id)] = true
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for { // what it said before it died
			id, err := out.ReadString('\n')
			if err != nil {
				break
			}
			acknowledged[strings.TrimSpace(id)] = true
		}
		_ = cmd.Wait()
	}
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "state.db")}, Schema())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p := place{o, NewMirror(db)}
	if rep := p.verify(t); rep.Bad != nil || rep.Mirrored == 0 || rep.Mirrored > rep.Lines {
		t.Fatalf("got %+v (%+v)", rep, rep.Bad)
	}
	for _, e := range p.entries(t) {
		if e.Event == "begin" {
			delete(acknowledged, e.Call)
		}
	}
	if len(acknowledged) != 0 {
		t.Errorf("%d acknowledged begins are not in the log", len(acknowledged))
	}
}

// writeIntoALimit writes until the kernel refuses, as on a full disk, then
// checks that the file ends in a whole line and that it goes on when there is
// room again.
func writeIntoALimit(dir string) {
	signal.Ignore(syscall.SIGXFSZ)
	ctx := context.Background()
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, Schema())
	if err != nil {
		panic(err)
	}
	o := Options{Dir: dir, KeyFile: filepath.Join(dir, "key", "audit.key")}
	l, err := Open(ctx, o, NewMirror(db))
	if err != nil {
		panic(err)
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		panic(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 10_000, Max: old.Max}); err != nil {
		panic(err)
	}
	written := 0
	for err == nil {
		if err = l.Append(ctx, tool.Note{Name: "operator"}); err == nil {
			written++
		}
	}
	again := l.Append(ctx, tool.Note{Name: "operator"})
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		panic(err)
	}
	after := l.Append(ctx, tool.Note{Name: "operator"})
	closed := l.Close()
	rep, verr := Verify(ctx, o, NewMirror(db))
	fmt.Printf("full=%v again=%v after=%v closed=%v verify=%v bad=%v torn=%d lines=%v\n",
		errors.Is(err, syscall.EFBIG), errors.Is(again, syscall.EFBIG), after, closed, verr, rep.Bad, rep.TornBytes,
		rep.Lines == uint64(written+2))
	os.Exit(0)
}

func TestAFullDiskStopsCallsAndTearsNothing(t *testing.T) {
	_, out, _ := child(t, "AUDIT_TEST_FULL="+t.TempDir())
	got, err := out.ReadString('\n')
	want := "full=true again=true after=<nil> closed=<nil> verify=<nil> bad=<nil> torn=0 lines=true\n"
	if err != nil || got != want {
		t.Errorf("got  %q, %v\nwant %q", got, err, want)
	}
}
