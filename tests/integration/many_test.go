package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/tier"
)

func TestFault_ThousandsOfSessions(t *testing.T) {
	t.Parallel()
	each := tier.Rounds(t, 125, 1250)
	d := newDaemon(t, fmt.Sprintf("sessions: {perAccount: %d}\n", 8*each))
	var last atomic.Value
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for range each {
				last.Store(d.session())
			}
		})
	}
	g.Wait()
	err := d.agent.Do(t.Context(), "POST", "/sessions", map[string]any{}, nil)
	if code(err) != "too_many_sessions" {
		t.Errorf("one more session: got %v, want too_many_sessions", err)
	}
	session := last.Load().(string)
	d.mustCall(session, "Bash", `{"command":"echo still here"}`)
	if err := d.agent.Do(t.Context(), "DELETE", "/sessions/"+session, nil, nil); err != nil {
		t.Fatal(err)
	}
	d.mustCall(d.session(), "Config", `{"action":"list"}`)
}

// questions are those of a session that wait, at most 100, and how many wait in all sessions that
// the query names.
func (d *running) questions(query string) (page []question, total int) {
	d.t.Helper()
	res, err := unixClient(filepath.Join(d.work, "run/o.sock")).Get("http://x/approvals?limit=100" + query)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	var in struct {
		Data []question
		Meta struct{ Total int }
	}
	if err := json.NewDecoder(res.Body).Decode(&in); err != nil || res.StatusCode != http.StatusOK {
		d.t.Fatalf("%s, %v", res.Status, err)
	}
	return in.Data, in.Meta.Total
}

// A thousand calls of ten sessions wait for a person at once, ten thousand in make long. Others work meanwhile, each
// call gets its own answer, and what waits when the daemon is killed waits when it is there again.
func TestFault_ThousandsOfQuestions(t *testing.T) {
	tier.Long(t, "thousands take seconds; approvals has as many kinds, and fewer")
	t.Parallel()
	const each, answered = 100, 5
	sessions := tier.Rounds(t, 10, 100)
	d := newDaemon(t, "policy: {rules: {ask: [Read]}}\napprovals: {timeout: 1h}\nlimits: {agentBytes: 8589934592}\n")
	d.write("ws/file", "the content\n")
	var ids []string
	results := make([][]client.Result, sessions) // of a session that was answered: all of them
	finished := make([]chan struct{}, sessions)
	for i := range sessions {
		id := d.session()
		ids, finished[i] = append(ids, id), make(chan struct{})
		go func() {
			defer close(finished[i])
			var calls []map[string]any
			for n := range each {
				calls = append(calls, map[string]any{"tool": "Read", "args": map[string]any{"file_path": "file", "limit": n + 1}})
			}
			_ = d.agent.Do(context.Background(), "POST", "/sessions/"+id+"/calls",
				map[string]any{"calls": calls}, &results[i]) // the daemon is killed while most of them wait
		}()
	}
	total := 0
	if !waitFor(func() bool {
		time.Sleep(50 * time.Millisecond) // the daemon has enough to do
		_, total = d.questions("")
		return total == sessions*each
	}) {
		t.Fatalf("%d questions wait, want %d\n%.2000s", total, sessions*each, d.log)
	}
	last := ids[sessions-1]
	r := d.call(last, "Read", `{"file_path":"file","limit":1000}`)
	if r.Error == nil || r.Error.Code != "too_many_questions" {
		t.Errorf("one more in a session: %s %+v", r.Status, r.Error)
	}
	d.mustCall(last, "Bash", `{"command":"echo still here"}`)
	rnd := tier.Rand(t)
	for i := range answered {
		page, n := d.questions("&session_id=" + ids[i])
		if n != each || len(page) != each {
			t.Fatalf("session %d has %d of %d questions", i, len(page), n)
		}
		rnd.Shuffle(each, func(a, b int) { page[a], page[b] = page[b], page[a] })
		for _, q := range page {
			var args struct{ Limit int }
			if err := json.Unmarshal(q.Args, &args); err != nil {
				t.Fatal(err)
			}
			in := map[string]any{"approved": args.Limit%2 == 0, "reason": fmt.Sprint("answer ", args.Limit)}
			if err := d.operator.Do(t.Context(), "POST", "/approvals/"+q.ID, in, nil); err != nil {
				t.Error(err)
			}
		}
		<-finished[i]
		if len(results[i]) != each {
			t.Fatalf("session %d has %d results", i, len(results[i]))
		}
		for n, r := range results[i] {
			limit := n + 1
			if yes := r.Status == client.StatusSuccess; yes != (limit%2 == 0) ||
				!yes && r.RejectReason != fmt.Sprint("answer ", limit) {
				t.Errorf("session %d, call %d: %s %q", i, limit, r.Status, r.RejectReason)
			}
		}
	}
	t.Logf("the daemon takes %.0f MiB", d.resident()/(1<<20))
	d.stop(os.Kill)
	for _, f := range finished {
		<-f
	}
	d.start()
	left := (sessions - answered) * each
	if _, total := d.questions(""); total != left {
		t.Errorf("%d questions wait after kill -9, want %d", total, left)
	}
	if err := d.agent.Do(t.Context(), "DELETE", "/sessions/"+last, nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, total := d.questions(""); total != left-each {
		t.Errorf("%d questions wait without one session, want %d", total, left-each)
	}
	d.mustCall(ids[0], "Bash", `{"command":"echo still here"}`)
	d.stop(os.Interrupt)
	d.verify()
}
