package jobs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sandboxd/sandboxd/sandbox"
)

// TestReadersShareWhatIsSent: what a thousand get is read and encoded once, and however they came,
// each has the whole text.
func TestReadersShareWhatIsSent(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		j, c := w.begin(false)
		var mu sync.Mutex
		events := map[*byte]int{}
		var readers sync.WaitGroup
		const line = "a line of text\n"
		for i := range 1000 {
			readers.Go(func() {
				var text strings.Builder
				err := j.Follow(context.Background(), int64(i%2), func(event []byte, _ int64) error {
					mu.Lock()
					defer mu.Unlock()
					events[&event[0]]++
					text.WriteString(printedIn(t, event).Text)
					return nil
				})
				if want := strings.Repeat(line, 50)[i%2:]; err != nil || text.String() != want {
					t.Errorf("got %q, %v", text.String(), err)
				}
			})
		}
		for range 50 {
			io.WriteString(j.Output(), line)
			synctest.Wait()
		}
		j.finish(c, sandbox.Exit{}, fine)
		readers.Wait()
		if len(events) > 10 {
			t.Errorf("%d events were encoded", len(events))
		}
	})
}

// TestAReaderThatTakesNothingHoldsNobody: neither the job nor other readers.
func TestAReaderThatTakesNothingHoldsNobody(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	stuck, free := make(chan bool), make(chan bool)
	var slow sync.WaitGroup
	slow.Go(func() {
		j.Follow(context.Background(), 0, func([]byte, int64) error {
			close(stuck)
			<-free
			return errors.New("gone")
		})
	})
	io.WriteString(j.Output(), "first")
	<-stuck
	heard := make(chan int64)
	go func() {
		var last int64
		j.Follow(context.Background(), 0, func(_ []byte, next int64) error { last = next; return nil })
		heard <- last
	}()
	total := int64(len("first"))
	for range 100 {
		n, _ := j.Output().Write(bytes.Repeat([]byte("x"), 100_000))
		total += int64(n)
	}
	j.finish(c, sandbox.Exit{}, fine)
	if got := <-heard; got != total {
		t.Errorf("the other has read up to %d of %d", got, total)
	}
	close(free)
	slow.Wait()
	if r := &j.readers; r.n != 0 || r.pieces != nil || r.room != nil {
		t.Errorf("left: %+v", r)
	}
}

// TestAnEventIsBounded: also one of output that becomes six times as long.
func TestAnEventIsBounded(t *testing.T) {
	w := newWorld(t)
	j, c := w.begin(false)
	printed := bytes.Repeat([]byte("\x01ä\xff"), 100_000)
	j.Output().Write(printed)
	j.finish(c, sandbox.Exit{}, fine)
	var text strings.Builder
	err := j.Follow(t.Context(), 0, func(event []byte, _ int64) error {
		if len(event) > eventBytes || len(event) < eventBytes/4 && text.Len() == 0 {
			t.Errorf("an event has %d bytes", len(event))
		}
		text.WriteString(printedIn(t, event).Text)
		return nil
	})
	if err != nil || text.String() != string(bytes.ToValidUTF8(printed, []byte("\uFFFD"))) {
		t.Errorf("got %d bytes, %v", text.Len(), err)
	}
}
