package approvals

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/bench"
)

// fileMany asks n different questions, each from its own caller, and returns
// when all wait.
func fileMany(t testing.TB, q *Queue, n int, answered func(i int, approved bool)) *sync.WaitGroup {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := bashCall(strconv.Itoa(i))
			c.Session.ID = fmt.Sprintf("s%d", i%200)
			a, err := q.Execution(context.Background(), c)
			if err != nil {
				t.Error(err)
			}
			answered(i, a.Approved)
		})
	}
	for q.Pending() < n && !t.Failed() {
		runtime.Gosched()
	}
	return &wg
}

// TestManyQuestionsInAnyOrder is the small form of BenchmarkTenThousand, which
// takes a minute under the race detector.
func TestManyQuestionsInAnyOrder(t *testing.T) {
	answerMany(t, filepath.Join(t.TempDir(), "state.db"), 500)
}

// BenchmarkTenThousand is what one waiting question costs in memory, its caller's
// goroutine included; none is lost.
func BenchmarkTenThousand(b *testing.B) {
	bench.Value(b, "a waiting question", answerMany(b, filepath.Join(b.TempDir(), "state.db"), 10_000), "B", 16<<10)
}

// answerMany asks n questions at once, answers them in random order, checks that
// each caller got its own answer, and returns the bytes that one took to wait.
func answerMany(t testing.TB, path string, n int) float64 {
	q, closeDB := openQueueAt(t, path, Options{Approver: true, Timeout: time.Hour})
	defer closeDB()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	got := make([]int, n) // 0: no answer, 1: refused, 2: approved
	wg := fileMany(t, q, n, func(i int, approved bool) {
		got[i] = 1
		if approved {
			got[i] = 2
		}
	})
	for range 3 { // each collection halves the stacks that the database work grew
		runtime.GC()
	}
	runtime.ReadMemStats(&after)

	items, total := listed(t, q, Filter{})
	if len(items) != n || total != n {
		t.Fatalf("listed %d of %d", len(items), total)
	}
	part, total := listed(t, q, Filter{Limit: 7, Offset: 3})
	if len(part) != 7 || total != n || part[0].ID != items[3].ID {
		t.Errorf("a page of 7 has %d of %d", len(part), total)
	}
	rand.Shuffle(n, func(i, j int) { items[i], items[j] = items[j], items[i] })
	want := make([]int, n)
	for k, item := range items {
		i, err := strconv.Atoi(item.Digest[len("digest of "):])
		if err != nil {
			t.Fatal(err)
		}
		want[i] = 1 + k%2
		if _, err := q.Decide(t.Context(), item.ID, Decision{Approved: k%2 == 1}); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	for i := range n {
		if got[i] != want[i] {
			t.Fatalf("call %d got answer %d, want %d", i, got[i], want[i])
		}
	}
	if q.Pending() != 0 {
		t.Errorf("%d questions are left", q.Pending())
	}
	used := after.HeapInuse + after.StackInuse - before.HeapInuse - before.StackInuse
	return float64(used) / float64(n)
}

// BenchmarkAskAndAnswer is one question from filing to the answer, and a call that
// a remembered answer lets through.
func BenchmarkAskAndAnswer(b *testing.B) {
	q, closeDB := openQueueAt(b, filepath.Join(b.TempDir(), "state.db"), Options{Approver: true})
	defer closeDB()
	events := q.Subscribe(b.Context())
	go func() {
		for e := range events {
			if e.Kind == EventAsked {
				d := Decision{Approved: true}
				if e.Item.Digest == "digest of remembered" {
					d.Remember = RememberAlways
				}
				_, _ = q.Decide(context.Background(), e.Item.ID, d)
			}
		}
	}()
	ask := func(command string) {
		if a, err := q.Execution(b.Context(), bashCall(command)); err != nil || !a.Approved {
			b.Fatal(a, err)
		}
	}
	i := 0
	bench.Compare(b, []bench.Case{
		{Name: "asked and answered", Run: func() { i++; ask(strconv.Itoa(i)) }},
		{Name: "remembered", Run: func() { ask("remembered") }},
	})
}
