package jobs

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestARingIsTheEndOfTheWhole: whatever is written in whatever pieces, what is read is the
// same place of the whole, also by the next daemon.
func TestARingIsTheEndOfTheWhole(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "out")
		os.Remove(path)
		const most = 5000
		r, err := createRing(path, most, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		defer r.end()
		var whole []byte
		for range rapid.IntRange(1, 6).Draw(t, "writes") {
			p := bytes.Repeat([]byte{byte(len(whole)), byte(len(whole) >> 8), 'x'}, rapid.IntRange(0, 30_000).Draw(t, "n"))
			whole = append(whole, p...)
			if _, err := r.Write(p); err != nil {
				t.Fatal(err)
			}
		}
		check := func(r *ring) {
			if r.written() != int64(len(whole)) {
				t.Fatalf("got %d bytes, want %d", r.written(), len(whole))
			}
			from := rapid.Int64Range(0, int64(len(whole))+10).Draw(t, "from")
			b := make([]byte, rapid.IntRange(0, most+10).Draw(t, "room"))
			n, at, err := r.read(b, from)
			wantAt := min(max(from, int64(len(whole))-most), int64(len(whole)))
			want := whole[max(wantAt, 0):]
			want = want[:min(len(want), len(b))]
			if err != nil || at != max(wantAt, 0) || !bytes.Equal(b[:n], want) {
				t.Fatalf("read %d from %d of %d: got %d bytes from %d, %v", len(b), from, len(whole), n, at, err)
			}
		}
		check(r)
		r.end()
		check(r)
		again, err := openRing(path)
		if err != nil {
			t.Fatal(err)
		}
		check(again)
	})
}

// TestAReaderBesideTheWriter: who reads while much is written gets what lies at the offset that it
// is told, and the writer does not wait for it.
func TestAReaderBesideTheWriter(t *testing.T) {
	r, err := createRing(filepath.Join(t.TempDir(), "out"), chunk, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	const whole = 400 * chunk
	all := make([]byte, whole)
	for i := range all {
		all[i] = byte(i%251 + i>>20) // no two places nearby look alike
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; n < whole; n += chunk {
			r.Write(all[n : n+chunk])
		}
		r.end()
	}()
	var readers sync.WaitGroup
	for range 32 {
		readers.Go(func() {
			b, next, reads := make([]byte, 256<<10), int64(0), 0
			for {
				more, err := r.wait(t.Context(), next)
				if err != nil || !more {
					break
				}
				n, from, err := r.read(b, next)
				if err != nil || from < next {
					t.Errorf("read from %d: %d, %v", next, from, err)
					return
				}
				if !bytes.Equal(b[:n], all[from:from+int64(n)]) {
					t.Errorf("at %d: %d bytes are others", from, n)
					return
				}
				next, reads = from+int64(n), reads+1
			}
			if next < whole {
				t.Errorf("it ended at %d of %d after %d reads", next, whole, reads)
			}
		})
	}
	readers.Wait()
	<-done
}

// TestACrashWithinAWriteSpoilsNothing: output that was written and not counted lies where
// nothing is promised any more.
func TestACrashWithinAWriteSpoilsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	r, err := createRing(path, 1000, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	r.Write(bytes.Repeat([]byte("0123456789"), 10_000))
	// The head of the file is as before the last chunk.
	head, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r.Write(bytes.Repeat([]byte("x"), chunk))
	r.end()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt(head[:ringHead], 0)
	f.Close()
	again, err := openRing(path)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1000)
	if n, at, err := again.read(b, 0); err != nil || n != 1000 || at != 99_000 || bytes.Contains(b, []byte("x")) {
		t.Errorf("got %d from %d, %v", n, at, err)
	}
}

func TestAFileThatIsNoRingIsRefused(t *testing.T) {
	for _, text := range []string{"", "short", "\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00", "0123456789012345\xff"} {
		path := filepath.Join(t.TempDir(), "out")
		os.WriteFile(path, []byte(text), 0o600)
		r, err := openRing(path)
		if err != nil {
			continue
		}
		b := make([]byte, 100) // a size that cannot be is an error or nothing, and no panic
		if n, _, err := r.read(b, 0); err == nil && n > len(text) {
			t.Errorf("%q: read %d bytes", text, n)
		}
	}
}

func TestOutputComesNoFasterThanItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := createRing(filepath.Join(t.TempDir(), "out"), 1<<20, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		defer r.end()
		began := time.Now()
		r.Write(make([]byte, 11<<20)) // the first second's worth comes at once
		if took := time.Since(began); took < 9900*time.Millisecond || took > 10100*time.Millisecond {
			t.Errorf("11 MiB at 1 MiB/s took %v", took)
		}
	})
}

func TestWhoWaitsHearsOfOutputAndOfTheEnd(t *testing.T) {
	r, err := createRing(filepath.Join(t.TempDir(), "out"), 1<<20, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan bool)
	go func() {
		for at := int64(0); ; at = r.written() {
			more, _ := r.wait(context.Background(), at)
			heard <- more
			if !more {
				return
			}
		}
	}()
	r.Write([]byte("x"))
	if !<-heard {
		t.Error("output is no end")
	}
	r.end()
	if <-heard {
		t.Error("the end is no output")
	}
}
