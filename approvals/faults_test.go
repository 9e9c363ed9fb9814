package approvals

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// TestKilledDaemon kills a process in which one question waits and another was
// answered after its caller left.
func TestKilledDaemon(t *testing.T) {
	if path := os.Getenv("SANDBOXD_TEST_KILL"); path != "" {
		waitToBeKilled(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "state.db")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledDaemon$")
	cmd.Env = append(os.Environ(), "SANDBOXD_TEST_KILL="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed

	q, closeDB := openQueueAt(t, path, Options{Approver: true})
	defer closeDB()
	item := onlyPending(t, q)
	if item.Digest != "digest of waits" {
		t.Errorf("got %+v, want the question that waited", item)
	}
	a, err := q.Execution(t.Context(), bashCall("answered"))
	if err != nil || !a.Approved || a.By != "ann" {
		t.Errorf("got %+v, %v: an acknowledged answer is lost", a, err)
	}
}

func waitToBeKilled(t *testing.T, path string) {
	q, _ := openQueueAt(t, path, Options{Approver: true, Timeout: time.Hour})
	events := q.Subscribe(t.Context())
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan bool)
	go func() {
		_, _ = q.Execution(ctx, bashCall("answered"))
		close(left)
	}()
	id := (<-events).Item.ID
	leave()
	<-left
	decide(t, q, id, Decision{Approved: true, By: "ann"})
	<-events
	go func() { _, _ = q.Execution(t.Context(), bashCall("waits")) }()
	<-events
	fmt.Println("ready")
	select {}
}

// TestAnswersAreNeverMadeUpNorUsedTwice runs random histories of callers that
// come and leave, answers, waits and restarts. A call may be approved only by a
// yes to its digest, and no more calls than waited for it (or one, if none did).
func TestAnswersAreNeverMadeUpNorUsedTwice(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		synctest.Test(t, func(t *testing.T) { randomHistory(t, r, path) })
	})
}

type caller struct {
	leave context.CancelFunc
	done  <-chan outcome
}

func randomHistory(t *testing.T, r *rapid.T, path string) {
	q, closeDB := openQueueAt(t, path, Options{Approver: true, Timeout: 20 * time.Minute})
	defer func() { closeDB() }()
	var callers []caller
	yes, got := map[string]int{}, map[string]int{} // by digest: calls that may run, calls that ran
	var mu sync.Mutex                              // guards got
	commands := []string{"a", "b"}
	for range rapid.IntRange(1, 25).Draw(r, "steps") {
		switch rapid.SampledFrom([]string{"ask", "ask", "leave", "decide", "decide", "wait", "restart"}).Draw(r, "step") {
		case "ask":
			ctx, leave := context.WithCancel(context.Background())
			c := bashCall(rapid.SampledFrom(commands).Draw(r, "command"))
			done := start(ctx, func(ctx context.Context, c *tool.Call) (tool.Approval, error) {
				a, err := q.Execution(ctx, c)
				if a.Approved {
					mu.Lock()
					got[c.Digest]++
					mu.Unlock()
				}
				return a, err
			}, c)
			callers = append(callers, caller{leave, done})
		case "leave":
			if len(callers) > 0 {
				callers[rapid.IntRange(0, len(callers)-1).Draw(r, "who")].leave()
				synctest.Wait()
			}
		case "decide":
			items := pending(t, q)
			if len(items) == 0 {
				continue
			}
			item := items[rapid.IntRange(0, len(items)-1).Draw(r, "which")]
			approved := rapid.Bool().Draw(r, "approved")
			decide(t, q, item.ID, Decision{Approved: approved})
			if approved {
				yes[item.Digest] += max(item.Waiting, 1)
			}
			synctest.Wait()
		case "wait":
			time.Sleep(time.Duration(rapid.IntRange(1, 15).Draw(r, "minutes")) * time.Minute)
			synctest.Wait() // a question may expire at this very instant
		case "restart":
			for _, c := range callers {
				c.leave()
				<-c.done
			}
			callers = nil
			closeDB()
			q, closeDB = openQueueAt(t, path, Options{Approver: true, Timeout: 20 * time.Minute})
		}
	}
	for _, c := range callers {
		c.leave()
		<-c.done
	}
	for digest, n := range got {
		if n > yes[digest] {
			r.Errorf("%s ran %d times, allowed %d times", digest, n, yes[digest])
		}
	}
}

// TestAnswersRaceWithLeaving makes each caller leave while its answer is being
// stored. Every yes serves exactly one call: the one that waited or the one that
// comes back.
func TestAnswersRaceWithLeaving(t *testing.T) {
	var leave context.CancelFunc
	q := openQueue(t,
		Options{Approver: true, Timeout: 10 * time.Second, Record: func(_ context.Context, e Event) error {
			if e.Kind == EventDecided {
				leave()
			}
			return nil
		}})
	events := q.Subscribe(t.Context())
	lost := 0
	for i := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		leave = cancel
		c := bashCall(fmt.Sprint(i))
		done := make(chan outcome, 1)
		go func() {
			a, err := q.Execution(ctx, c)
			done <- outcome{a, err}
		}()
		decide(t, q, (<-events).Item.ID, Decision{Approved: true})
		<-events
		got := <-done
		if got.err != nil {
			t.Fatal(got.err)
		}
		if got.Approved {
			continue
		}
		lost++
		a, err := q.Execution(t.Context(), c)
		if err != nil || !a.Approved {
			t.Fatalf("call %d: got %+v, %v: its answer is lost", i, a, err)
		}
	}
	t.Logf("%d of 200 answers came back for callers that had left", lost)
}

func TestOldAnswersAreDeletedWhileTheDaemonRuns(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		answerNext(t, q, bashCall("old"), Decision{Approved: true})
		time.Sleep(decidedKept + time.Second)
		answerNext(t, q, bashCall("new"), Decision{Approved: true})
		items, _ := listed(t, q, Filter{Status: "all"})
		if len(items) != 1 || items[0].Digest != "digest of new" {
			t.Errorf("got %d questions, want the new one alone", len(items))
		}
	})
}

func TestListFilters(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, q *Queue) {
		answerNext(t, q, bashCall("x"), Decision{})
		start(t.Context(), q.Result, bashCall("y"))
		for _, tt := range []struct {
			filter Filter
			want   int
		}{
			{Filter{}, 1},
			{Filter{Status: "refused"}, 1},
			{Filter{Status: "approved"}, 0},
			{Filter{Status: "all"}, 2},
			{Filter{Status: "all", Type: TypeExecution}, 1},
			{Filter{Status: "all", Session: "s1"}, 2},
			{Filter{Status: "all", Session: "s2"}, 0},
			{Filter{Status: "all", Offset: 5}, 0},
		} {
			if items, _ := listed(t, q, tt.filter); len(items) != tt.want {
				t.Errorf("%+v: got %d, want %d", tt.filter, len(items), tt.want)
			}
		}
		_, err := q.List(t.Context(), Filter{Status: "open"})
		wantCode(t, err, "invalid_argument")
		if err := q.Close(""); err != nil {
			t.Error(err)
		}
	})
}
