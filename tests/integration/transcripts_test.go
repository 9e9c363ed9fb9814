package integration

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/tests/tier"
	"golang.org/x/sys/unix"
)

// said is a body with messages that have these uuids.
func said(uuids ...string) map[string]any {
	all := []map[string]string{}
	for _, id := range uuids {
		all = append(all, map[string]string{"role": "user", "content": "say " + id, "uuid": id})
	}
	return map[string]any{"messages": all}
}

// heard are the uuids of the messages of a session.
func (d *running) heard(session string) (all []string) {
	d.t.Helper()
	for raw, err := range d.agent.Messages(d.t.Context(), session, 0) {
		var m struct{ UUID string }
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil {
			d.t.Fatalf("%s: %v", session, err)
		}
		all = append(all, m.UUID)
	}
	return all
}

// A daemon that is killed in the middle of saves has every message that it acknowledged, each
// once and in its order, and every save of a whole transcript is there whole.
func TestFault_D04_KillInTheMiddleOfSaves(t *testing.T) {
	t.Parallel()
	rounds := tier.Rounds(t, 5, 200)
	const writers, length = 3, 200
	d := newDaemon(t, "api: {perSecond: 1000000}\n")
	whole := d.session()
	var ids []string
	acked := make([][]string, writers)
	for range writers {
		ids = append(ids, d.session())
	}
	saved := 0 // the last whole transcript that was acknowledged
	for round := range rounds {
		var g sync.WaitGroup
		first := make(chan struct{}, writers+1) // an acknowledgement of each in this round
		for w := range writers {
			g.Go(func() {
				for i := 0; ; i++ {
					if i == 1 {
						first <- struct{}{}
					}
					uuid := fmt.Sprintf("%d.%d", round, i)
					if d.agent.Do(context.Background(), "POST", "/sessions/"+ids[w]+"/messages", said(uuid), nil) != nil {
						return
					}
					acked[w] = append(acked[w], uuid)
				}
			})
		}
		g.Go(func() {
			begin := saved + 1
			for i := begin; ; i++ {
				uuids := make([]string, length)
				for n := range uuids {
					uuids[n] = fmt.Sprint(i)
				}
				if d.agent.Do(context.Background(), "PUT", "/sessions/"+whole+"/messages", said(uuids...), nil) != nil {
					return
				}
				if saved = i; i == begin {
					first <- struct{}{}
				}
			}
		})
		// On a busy machine the delay may be over before anything is saved.
		limit := time.After(3 * time.Minute)
		for n := range writers + 1 {
			select {
			case <-first:
			case <-limit:
				t.Fatalf("round %d: %d of %d savers were acknowledged", round, n, writers+1)
			}
		}
		// the moment does not matter, so long as they differ
		time.Sleep(time.Duration(20+37*round%200) * time.Millisecond)
		d.stop(os.Kill)
		g.Wait()
		d.start()
		for w, id := range ids {
			got := d.heard(id)
			lost := slicesMissing(got, acked[w])
			if len(lost) > 0 || len(got) > len(acked[w])+round+1 {
				t.Fatalf("round %d: %d messages, %d acknowledged, lost %v", round, len(got), len(acked[w]), lost)
			}
		}
		got := d.heard(whole)
		if len(got) == 0 && saved == 0 {
			continue
		}
		var n int
		if _, err := fmt.Sscan(got[0], &n); err != nil || len(got) != length || n < saved || n > saved+1 ||
			strings.Join(got, " ") != strings.Repeat(got[0]+" ", length-1)+got[0] {
			t.Fatalf("round %d: transcript %d was acknowledged, %d messages of %s are there", round, saved, len(got), got[0])
		}
		saved = n
	}
	left, err := os.ReadDir(filepath.Join(d.work, "state/sessions/.new"))
	overFiles := os.Getenv(storetest.OverPostgres) == ""
	if overFiles && (err != nil || len(left) > 0) || !overFiles && !os.IsNotExist(err) {
		t.Errorf("%v is left, %v", left, err)
	}
	t.Logf("%d and %d acknowledged in %d rounds", len(acked[0])+len(acked[1])+len(acked[2]), saved, rounds)
	if len(acked[0]) == 0 || saved == 0 {
		t.Error("nothing was acknowledged")
	}
}

// slicesMissing are those of want that are not in got in their order.
func slicesMissing(got, want []string) (lost []string) {
	for _, w := range want {
		for len(got) > 0 && got[0] != w {
			got = got[1:]
		}
		if len(got) == 0 {
			lost = append(lost, w)
			continue
		}
		got = got[1:]
	}
	return lost
}

// A transcript that is not saved for want of room is as it was, and is saved when there is room.
func TestFault_NoSpaceForATranscript(t *testing.T) {
	storetest.FileOnly(t)
	d := newDaemon(t, "limits: {diskReserve: 1048576}\n")
	d.stop(os.Interrupt)
	d.mountState(0)
	d.start()
	s := d.session()
	path := "/sessions/" + s + "/messages"
	if err := d.agent.Do(t.Context(), "PUT", path, said("1", "2"), nil); err != nil {
		t.Fatal(err)
	}
	large := said("large")
	large["messages"].([]map[string]string)[0]["content"] = strings.Repeat("a", 6<<20)
	if err := d.agent.Do(t.Context(), "POST", path, large, nil); code(err) != "disk_reserve" && code(err) != "account_disk" {
		t.Errorf("an agent: got %v", err)
	}
	fill, err := os.Create(filepath.Join(d.work, "state/fill"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(fill, zeros(16<<20)); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v, want no space", err)
	}
	fill.Close()
	if err := d.operator.Do(t.Context(), "POST", path, said("3"), nil); code(err) != "disk_reserve" {
		t.Errorf("an operator, whom nothing bounds: got %v", err)
	}
	if got := strings.Join(d.heard(s), " "); got != "1 2" {
		t.Errorf("got %s", got)
	}
	if err := os.Remove(fill.Name()); err != nil {
		t.Fatal(err)
	}
	if !waitFor(func() bool { return d.agent.Do(t.Context(), "POST", path, said("3"), nil) == nil }) {
		t.Errorf("the daemon does not come back:\n%s", d.log)
	}
	if got := strings.Join(d.heard(s), " "); got != "1 2 3" {
		t.Errorf("got %s", got)
	}
}

// Sessions that nobody used for sessions.keepDays are deleted, and no others.
func TestSessionsThatNobodyUsesAreDeleted(t *testing.T) {
	storetest.FileOnly(t)
	d := newDaemon(t, "sessions: {keepDays: 30}\n")
	// The first to be looked at: a client that has gone left a floor generating.
	open := d.session()
	unused, called, changed, written, last := d.session(), d.session(), d.session(), d.session(), d.session()
	floor := map[string]any{"session_id": open, "floor_no": 0, "state": "generating"}
	if err := d.agent.Do(t.Context(), "POST", "/floors", floor, nil); err != nil {
		t.Fatal(err)
	}
	d.stop(os.Interrupt) // which stores that it was used
	d.start()
	value := map[string]any{"scope": "chat", "scope_id": written, "key": "k", "value": 1}
	if err := d.agent.Do(t.Context(), "PUT", "/variables", value, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.agent.Do(t.Context(), "PUT", "/sessions/"+unused+"/messages", said("1"), nil); err != nil {
		t.Fatal(err)
	}
	d.mustCall(called, "Config", `{"action":"list"}`)
	d.stop(os.Interrupt) // which stores that it was used
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(d.work, "state/state.db")}, sessions.Schema())
	if err != nil {
		t.Fatal(err)
	}
	err = db.Write(t.Context(), func(tx *sql.Tx) error {
		long := time.Now().Add(-31 * 24 * time.Hour).UnixNano()
		_, err := tx.Exec(`UPDATE sessions SET updated = $1 WHERE id != $2`, long, changed)
		if err == nil {
			_, err = tx.Exec(`UPDATE sessions SET used = $1 WHERE id = $2`, long, open)
		}
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	d.start()
	for _, id := range []string{open, unused, last} { // the last to be looked at
		if !waitFor(func() bool {
			return code(d.agent.Do(t.Context(), "GET", "/sessions/"+id, nil, nil)) == "session_not_found"
		}) {
			t.Errorf("a session is there that nobody uses:\n%s", d.log)
		}
	}
	if _, err := os.Stat(filepath.Join(d.work, "state/sessions", unused)); !os.IsNotExist(err) {
		t.Errorf("its transcript is there: %v", err)
	}
	for _, id := range []string{called, changed, written} {
		if err := d.agent.Do(t.Context(), "GET", "/sessions/"+id, nil, nil); err != nil {
			t.Errorf("a session that is used: %v", err)
		}
	}
}

// What a daemon that was killed has left of a session that was deleted goes with the next start;
// a directory of which the database knows nothing is left to people.
func TestTheRestOfADeletedSessionGoes(t *testing.T) {
	storetest.FileOnly(t)
	d := newDaemon(t, "")
	s := d.session()
	if err := d.agent.Do(t.Context(), "DELETE", "/sessions/"+s, nil, nil); err != nil {
		t.Fatal(err)
	}
	d.stop(os.Interrupt)
	d.write("state/sessions/"+s+"/transcript.json", "left")
	d.write("state/sessions/unknown/transcript.json", "theirs")
	d.start()
	if _, err := os.Stat(filepath.Join(d.work, "state/sessions", s)); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(d.work, "state/sessions/unknown")); err != nil {
		t.Error(err)
	}
}
