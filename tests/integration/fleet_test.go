package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/pgtest"
	"github.com/sandboxd/sandboxd/tests/tier"
)

const fleetAsks = "sessions: {mode: default, maxMode: default}\nsandbox: {autoAllowBashIfSandboxed: false}\n"

// newFleet starts so many daemons over one database. All have the workspace of the first.
func newFleet(t *testing.T, url, config string, n int) []*running {
	t.Helper()
	all := make([]*running, n)
	var starting sync.WaitGroup
	for i := range all {
		d := newPlaces(t, config)
		d.env = append(d.env, "SANDBOXD_STORE_URL="+url)
		if i > 0 {
			d.unserved()
			d.ws = all[0].ws
			d.env = append(d.env, "SANDBOXD_WORKSPACE_ROOTS="+d.ws)
		}
		all[i] = d
	}
	for _, d := range all { // at once, so that all of them would make the tables
		starting.Go(d.start)
	}
	starting.Wait()
	return all
}

func (d *running) do(method, path string, in, out any) {
	d.t.Helper()
	if err := d.operator.Do(d.t.Context(), method, path, in, out); err != nil {
		d.t.Fatalf("%s %s: %v\n%s", method, path, err, d.log)
	}
}

func wantErrorCode(t *testing.T, err error, code string) {
	t.Helper()
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func answer(d *running, id string, yes bool) error {
	return d.operator.Do(d.t.Context(), "POST", "/approvals/"+id, map[string]any{"approved": yes}, nil)
}

// ask makes a call that may wait for a person.
func (d *running) ask(session, name, args string) <-chan client.Result {
	return d.follow(session, name, args, func(client.Progress) {})
}

// follow is ask for who wants to hear what the call waits for.
func (d *running) follow(session, name, args string, hear func(client.Progress)) <-chan client.Result {
	done := make(chan client.Result, 1)
	go func() {
		r, err := d.agent.Follow(context.WithoutCancel(d.t.Context()), session, name, json.RawMessage(args), hear)
		if err != nil {
			r.FinalText = err.Error()
		}
		done <- r
	}()
	return done
}

// TestFleet_AModeTightenedAtOneIsTightAtTheOther: nothing is decided from memory that another daemon
// has changed.
func TestFleet_AModeTightenedAtOneIsTightAtTheOther(t *testing.T) {
	fleet := newFleet(t, pgtest.URL(t), "approvals: {approver: false}\n", 2) // who would be asked is refused
	a, b := fleet[0], fleet[1]
	s := a.session()
	write := func(d *running, name string) client.Result {
		return d.call(s, "Write", fmt.Sprintf(`{"file_path":%q,"content":"x"}`, filepath.Join(a.ws, name)))
	}
	for i, d := range fleet {
		if r := write(d, fmt.Sprint("free", i)); r.Status != "SUCCESS" {
			t.Fatalf("before: %+v", r)
		}
	}
	a.do("PATCH", "/sessions/"+s, map[string]any{"mode": "plan"}, nil)
	if r := write(b, "tight"); r.Status == "SUCCESS" {
		t.Error("the other daemon still writes in plan mode")
	}
	b.do("PATCH", "/sessions/"+s, map[string]any{"mode": "auto"}, nil)
	if r := write(a, "again"); r.Status != "SUCCESS" {
		t.Errorf("the first daemon does not know that the mode is loose again: %+v", r)
	}
	if err := b.agent.Do(t.Context(), "DELETE", "/sessions/"+s, nil, nil); err != nil {
		t.Fatal(err)
	}
	_, err := a.agent.Call(t.Context(), s, "Read", json.RawMessage(`{"file_path":"free"}`))
	wantErrorCode(t, err, "session_not_found")
}

// TestFleet_StateIsShared: what one daemon keeps the other reads, and a transcript is no file.
func TestFleet_StateIsShared(t *testing.T) {
	fleet := newFleet(t, pgtest.URL(t), "", 2)
	a, b := fleet[0], fleet[1]
	s := a.session()
	value := "from a"
	if _, err := a.agent.PutVar(t.Context(), s, "v", client.VarChange{Value: &value}); err != nil {
		t.Fatal(err)
	}
	if v, err := b.agent.Var(t.Context(), s, "v"); err != nil || v.Value == nil || *v.Value != value {
		t.Errorf("the variable at b: %+v, %v", v, err)
	}
	put := map[string]any{"scope": "chat", "scope_id": s, "key": "k", "value": 7}
	if err := b.agent.Do(t.Context(), "PUT", "/variables", put, nil); err != nil {
		t.Fatal(err)
	}
	var found []client.ScopedVariable
	if err := a.agent.Do(t.Context(), "GET", "/variables?scope=chat&key=k", nil, &found); err != nil || len(found) != 1 {
		t.Errorf("the scoped variable at a: %+v, %v", found, err)
	}
	// Both append to one transcript at once, and nothing is lost.
	var g sync.WaitGroup
	var want []string
	for i, d := range fleet {
		for n := range 10 {
			want = append(want, fmt.Sprintf("%d-%d", i, n))
		}
		g.Go(func() {
			for n := range 10 {
				err := d.agent.Do(t.Context(), "POST", "/sessions/"+s+"/messages", said(fmt.Sprintf("%d-%d", i, n)), nil)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	for _, d := range fleet {
		got := d.heard(s)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the transcript has %d messages, want %d: %v", len(got), len(want), got)
		}
		if files, _ := filepath.Glob(filepath.Join(d.work, "state/sessions/*")); len(files) > 0 {
			t.Errorf("transcripts are files: %v", files)
		}
	}
}

// TestFleet_ASessionRunsWhereItsFilesAre: a daemon with another workspace refuses its calls.
func TestFleet_ASessionRunsWhereItsFilesAre(t *testing.T) {
	url := pgtest.URL(t)
	a, b := newFleet(t, url, "", 1)[0], newFleet(t, url, "", 1)[0]
	s := a.session()
	// The same path at b, which is another directory: what an image has at each node.
	if err := os.Rename(a.ws, a.ws+"-moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(a.ws, 0o700); err != nil {
		t.Fatal(err)
	}
	b.stop(os.Interrupt)
	b.unserved()
	b.env = append(b.env, "SANDBOXD_WORKSPACE_ROOTS="+a.ws)
	b.ws = a.ws
	b.start()
	if r := b.call(s, "Bash", `{"command":"true"}`); r.Error == nil || r.Error.Code != "session_elsewhere" {
		t.Errorf("the call at b: %+v", r)
	}
	if v, err := b.agent.Vars(t.Context(), s, client.VarFilter{}); err != nil {
		t.Errorf("its variables can be read there: %v, %v", v, err)
	}
}

// TestFleet_OnePlaceToApprove is the rehearsal of docs/fleet.md: a sidecar for each of ten agents, one
// database, one operator who answers what all of them ask; one daemon is killed, the database restarts.
func TestFleet_OnePlaceToApprove(t *testing.T) {
	t.Parallel()
	agents := tier.Rounds(t, 4, 10)
	server := pgtest.Start(t)
	fleet := newFleet(t, server.Database(t), fleetAsks, agents)
	place := fleet[0]
	ask := func(round string) (ids []string, calls []<-chan client.Result) {
		// A question is in the database before its daemon has heard that: each says so itself.
		var waiting atomic.Int64
		for i, d := range fleet {
			calls = append(calls, d.follow(d.session(), "Bash", fmt.Sprintf(`{"command":"echo %s-%d"}`, round, i),
				func(p client.Progress) {
					if p.Waiting != nil {
						waiting.Add(1)
					}
				}))
		}
		if !waitFor(func() bool { return waiting.Load() == int64(len(fleet)) }) {
			t.Fatalf("%s: %d agents wait", round, waiting.Load())
		}
		for _, q := range place.waiting(len(fleet)) {
			ids = append(ids, q.ID)
		}
		return ids, calls
	}
	finish := func(round string, calls []<-chan client.Result) {
		t.Helper()
		for i, c := range calls {
			select {
			case r := <-c:
				if !strings.Contains(r.FinalText, fmt.Sprintf("%s-%d", round, i)) {
					t.Errorf("%s: agent %d got %+v", round, i, r)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%s: agent %d still waits", round, i)
			}
		}
	}
	ids, calls := ask("first")
	for _, id := range ids {
		if err := answer(place, id, true); err != nil {
			t.Error(err)
		}
	}
	finish("first", calls)
	for _, d := range fleet[1:] {
		wantErrorCode(t, answer(d, ids[0], false), "already_decided")
	}

	// While questions wait the database is killed and comes back: nobody restarts a daemon, and
	// answers that are given then reach who asked.
	ids, calls = ask("second")
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	_, err := place.agent.SessionFor(t.Context(), place.ws)
	wantErrorCode(t, err, "store_unavailable")
	if err := place.agent.Do(t.Context(), "GET", "/healthz", nil, nil); err != nil {
		t.Errorf("while the database is away the daemon is: %v", err)
	}
	var status struct {
		Parts struct {
			Store struct {
				Away string `json:"away_since"`
				Why  string
			}
		}
	}
	place.do("GET", "/status", nil, &status)
	if s := status.Parts.Store; s.Away == "" || s.Why == "" {
		t.Errorf("the status does not say since when the database is away, and why: %+v", s)
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if err := answer(place, id, true); err != nil {
			t.Error(err)
		}
	}
	finish("second", calls)

	// One daemon dies. The others go on.
	last := fleet[agents-1]
	last.stop(os.Kill)
	fleet = fleet[:agents-1]
	ids, calls = ask("third")
	for _, id := range ids {
		if err := answer(place, id, true); err != nil {
			t.Error(err)
		}
	}
	finish("third", calls)
}

// TestFleet_NoDatabaseAtStart: the daemon ends with a hint, and shows no password.
func TestFleet_NoDatabaseAtStart(t *testing.T) {
	t.Parallel()
	d := newPlaces(t, "")
	d.write("password", "SECRET-OF-THE-DATABASE\n")
	d.write("config.yaml", "store: {url: \"postgres://sandboxd@127.0.0.1:1/none\", timeout: 200ms, passwordFile: "+d.work+"/password}\n"+
		"workspace: {roots: ["+d.ws+"]}\n")
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
	d.env = slices.DeleteFunc(d.env, func(v string) bool { return strings.HasPrefix(v, "SANDBOXD_STORE_URL=") })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(bin, "sandboxd"), "serve")
	c.Dir, c.Env = d.ws, d.env
	begun := time.Now()
	out, err := c.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("it ended with %v", err)
	}
	text := string(out)
	if !strings.Contains(text, "127.0.0.1:1") || !strings.Contains(text, "hint: ") || strings.Contains(text, "SECRET") {
		t.Errorf("it says\n%s", text)
	}
	t.Logf("after %v", time.Since(begun).Round(time.Second))
}
