package output_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/output"
)

// all takes what a reader gets until the log is closed.
func all(ctx context.Context, r *output.Reader) (items []output.Item) {
	for {
		next, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return items
		}
		items = append(items, kept(next)...)
	}
}

// kept are items that stay valid.
func kept(items []output.Item) []output.Item {
	items = slices.Clone(items)
	for i := range items {
		items[i].Text = bytes.Clone(items[i].Text)
	}
	return items
}

func textOf(items []output.Item, stream string) (text string) {
	for _, i := range items {
		if i.Stream == stream {
			text += string(i.Text)
		}
	}
	return text
}

func TestEventsAndOutputInTheirOrder(t *testing.T) {
	l := output.NewLog(1 << 10)
	l.Event("begin", 1)
	l.Write("stdout", []byte("a\xc3"))
	l.Write("stderr", []byte("!"))
	l.Write("stdout", []byte("\xa4b"))
	l.Write("stdout", []byte("\xff\xe2\x82")) // no character, and a begin of one that never ends
	l.Close()
	l.Write("stdout", []byte("late"))
	l.Event("late", nil)
	var got []string
	for _, i := range all(t.Context(), l.After(0)) {
		got = append(got, fmt.Sprintf("%d %s%s@%d %q", i.Seq, i.Name, i.Stream, i.Offset, i.Text))
	}
	want := []string{`1 begin@0 ""`, `2 stdout@0 "a"`, `3 stderr@0 "!"`, `4 stdout@1 "äb��"`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if rest := all(t.Context(), l.After(3)); len(rest) != 1 || rest[0].Seq != 4 {
		t.Errorf("behind 3: %v", rest)
	}
}

// TestTextIsWhole: however the bytes are cut, each reader gets the characters, and offsets
// count bytes.
func TestTextIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := []byte(rapid.String().Draw(t, "text"))
		l := output.NewLog(1 << 20)
		r := l.After(0)
		var got []output.Item
		for rest := whole; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			l.Write("stdout", rest[:n])
			rest = rest[n:]
			if rapid.Bool().Draw(t, "read") && n > 4 { // so that there is something
				items, err := r.Next(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, kept(items)...)
			}
		}
		l.Close()
		got = append(got, all(context.Background(), r)...)
		if text := textOf(got, "stdout"); text != string(bytes.ToValidUTF8(whole, []byte("\uFFFD"))) {
			t.Fatalf("got %q of %q", text, whole)
		}
		at := int64(0)
		for _, i := range got {
			if i.Offset != at {
				t.Fatalf("got offset %d, want %d", i.Offset, at)
			}
			at += int64(len(i.Text))
		}
	})
}

// TestTheProgramWaitsForItsOwnerOnly: and not for ever.
func TestTheProgramWaitsForItsOwnerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := output.NewLog(10_000)
		owner, other := l.Owner(), l.After(0)
		l.Write("stdout", make([]byte, 6000))
		written := make(chan bool)
		go func() {
			for range 7 {
				l.Write("stdout", bytes.Repeat([]byte("x"), 6000))
				written <- true
			}
		}()
		synctest.Wait()
		select {
		case <-written:
			t.Fatal("what the owner did not take was pushed out")
		default:
		}
		if _, err := owner.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-written
		began := time.Now()
		<-written // nobody takes what is there: it waits its time
		if waited := time.Since(began); waited != 10*time.Second {
			t.Errorf("it waited %v for its owner", waited)
		}
		began = time.Now()
		<-written // who was late once is not waited for again until it takes something
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it waited %v once more", waited)
		}
		synctest.Wait() // another one is there, for which it did not wait either
		if _, err := owner.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		<-written
		<-written
		<-written // it took what was there, so it is waited for again
		if waited := time.Since(began); waited != 10*time.Second {
			t.Errorf("after it took something it was waited for %v", waited)
		}
		owner.Close()
		<-written
		l.Close()
		items := all(t.Context(), other)
		if len(items) != 1 || items[0].Offset != 42_000 {
			t.Errorf("who did not read got %d items, at %d", len(items), items[0].Offset)
		}
	})
}

// TestAnOwnerThatWasLateIsNotWaitedForInVain: what was pushed out before it came is nothing that it can still take.
func TestAnOwnerThatWasLateIsNotWaitedForInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := output.NewLog(10_000)
		owner := l.Owner()
		for range 4 {
			l.Write("stdout", make([]byte, 6000))
		}
		if items, err := owner.Next(t.Context()); err != nil || len(items) != 1 || items[0].Offset != 18_000 {
			t.Fatalf("got %v, %v", len(items), err)
		}
		began := time.Now()
		l.Write("stdout", make([]byte, 1000))
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the program waited %v for an owner that has all there is", waited)
		}
	})
}

// TestTheOwnerGetsEverything: however large the pieces are, and however late it takes them.
func TestTheOwnerGetsEverything(t *testing.T) {
	l := output.NewLog(1000)
	owner := l.Owner()
	const total = 500_000
	go func() {
		for at, n := 0, 1; at < total; n = n%997 + 100 {
			n = min(n, total-at)
			l.Write("stdout", bytes.Repeat([]byte("x"), n))
			at += n
		}
		l.Close()
	}()
	at := int64(0)
	for _, i := range all(context.Background(), owner) {
		if i.Offset != at {
			t.Fatalf("missed %d bytes at %d", i.Offset-at, at)
		}
		at += int64(len(i.Text))
	}
	if at != total {
		t.Errorf("got %d bytes", at)
	}
}

func TestAReaderThatLeavesFreesTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := output.NewLog(1000)
		owner := l.Owner()
		l.Write("stdout", make([]byte, 800))
		done := make(chan time.Duration)
		began := time.Now()
		go func() { l.Write("stdout", make([]byte, 800)); done <- time.Since(began) }()
		synctest.Wait()
		owner.Close()
		if took := <-done; took > 0 {
			t.Errorf("it waited %v for a reader that is gone", took)
		}
	})
}

// TestManyReaders: each gets everything, whatever the others do.
func TestManyReaders(t *testing.T) {
	l := output.NewLog(1 << 20)
	var wg sync.WaitGroup
	for range 100 {
		r := l.After(0)
		wg.Go(func() {
			if n := len(textOf(all(context.Background(), r), "stdout")); n != 100*10 {
				t.Errorf("got %d bytes", n)
			}
		})
	}
	for range 100 {
		l.Write("stdout", []byte("0123456789"))
	}
	l.Close()
	wg.Wait()
}

// TestALogIsBounded: also one whose items are small, each taken by itself; and what it takes does
// not grow with what is written.
func TestALogIsBounded(t *testing.T) {
	const most = 256 << 10
	for _, n := range []int{1, 100, 32 << 10, 300_000} {
		l := output.NewLog(most)
		r := l.After(0)
		p := bytes.Repeat([]byte("x"), n)
		write := func() {
			l.Write("stdout", p)
			if n < 10_000 { // so that nothing is added to what is there
				if _, err := r.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		for l.Size() < most-output.ItemBytes {
			write()
		}
		for range 100 {
			write()
		}
		if n == 32<<10 {
			if made := testing.AllocsPerRun(100, write); made > 0 {
				t.Errorf("%d bytes at once: each write allocates %v times", n, made)
			}
		}
		if l.Size() > most {
			t.Errorf("%d bytes at once: it holds %d", n, l.Size())
		}
		if items := held(l); items > most/128 {
			t.Errorf("%d bytes at once: it holds %d items", n, items)
		}
	}
}

// held is how many items a log holds.
func held(l *output.Log) int {
	l.Close()
	return len(all(context.Background(), l.After(0)))
}

func Example() {
	l := output.NewLog(1 << 10)
	reader := l.Owner()
	l.Event("begin", "call_1")
	l.Write("stdout", []byte("hello\n"))
	l.Close()
	items, err := reader.Next(context.Background())
	for _, i := range items {
		fmt.Printf("%d %s%s %q\n", i.Seq, i.Name, i.Stream, i.Text)
	}
	_, end := reader.Next(context.Background())
	fmt.Println(err, end)
	// Output:
	// 1 begin ""
	// 2 stdout "hello\n"
	// <nil> EOF
}

// TestTheOwnerGathers: what is much, for a moment; and nothing holds up an event.
func TestTheOwnerGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := output.NewLog(256 << 10)
		owner, other := l.Owner(), l.After(0)
		gather := func(r *output.Reader) (bool, time.Duration) {
			began := time.Now()
			return r.Gather(t.Context()), time.Since(began)
		}
		l.Write("stdout", make([]byte, output.GatherBytes-1000))
		if enough, took := gather(owner); enough || took != time.Millisecond {
			t.Errorf("little: %v after %v", enough, took)
		}
		go func() {
			l.Write("stdout", make([]byte, 10))
			time.Sleep(time.Microsecond)
			l.Write("stdout", make([]byte, 1000))
		}()
		if enough, took := gather(owner); !enough || took != time.Microsecond {
			t.Errorf("much: %v after %v", enough, took)
		}
		if enough, took := gather(other); enough || took > 0 {
			t.Errorf("who is not the owner: %v after %v", enough, took)
		}
		if _, err := owner.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() { time.Sleep(time.Microsecond); l.Event("waiting", 1) }()
		if enough, took := gather(owner); enough || took != time.Microsecond {
			t.Errorf("an event: %v after %v", enough, took)
		}
		if _, err := owner.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		gather(owner)
		go l.Write("stdout", []byte("x")) // who does not gather any more hears of it
		if items, err := owner.Next(t.Context()); err != nil || string(items[0].Text) != "x" {
			t.Errorf("got %d items, %v", len(items), err)
		}
		heard := make(chan int)
		go func() {
			if _, err := other.Next(t.Context()); err != nil {
				t.Error(err)
			}
			items, err := other.Next(t.Context())
			if err != nil {
				t.Error(err)
			}
			heard <- len(items)
		}()
		synctest.Wait()
		go func() { time.Sleep(time.Microsecond); l.Write("stdout", []byte("y")) }()
		gather(owner)
		<-heard // the others hear of it when the owner has gathered
		l.Close()
		if enough, took := gather(owner); enough || took > 0 {
			t.Errorf("closed: %v after %v", enough, took)
		}
	})
}

// TestACharacterThatDoesNotEnd is what programs print that are killed in its middle, in every stream.
func TestACharacterThatDoesNotEnd(t *testing.T) {
	for _, name := range []string{"stdout", "stderr", "output"} { // the last is that of jobs
		l := output.NewLog(1 << 20)
		l.Write(name, []byte("5 \xe2\x82"))
		l.Close()
		if got, want := textOf(all(t.Context(), l.After(0)), name), "5 \uFFFD"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
