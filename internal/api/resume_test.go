package api

import (
	"bufio"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestD12_ASessionGoesOnBehindItsHistory(t *testing.T) {
	w := newWorld(t)
	w.talk("s", 2)
	if s := w.sessionOf(w.want(200, "POST", "/sessions", `{"resume":"s"}`)); s.ID != "s" || s.MessageCount != 2 {
		t.Errorf("got %+v", s)
	}
	w.want(200, "POST", "/sessions/s/messages", saying(3, 4))
	if got := w.heard("s"); got != "1 2 3 4" {
		t.Errorf("got %s", got)
	}
	w.want(404, "POST", "/sessions", `{"resume":"none"}`)
}

func TestD13_TheSessionThatChangedLastGoesOn(t *testing.T) {
	w := newWorld(t)
	made := w.sessionOf(w.want(201, "POST", "/sessions", `{"continue_recent":true,"title":"new","mode":"plan"}`))
	if made.Title != "new" || made.Mode != "plan" {
		t.Errorf("without a session: got %+v", made)
	}
	w.talk("a", 1)
	w.talk("b", 1)
	w.want(200, "POST", "/sessions/a/messages", saying(2, 2))
	if s := w.sessionOf(w.want(200, "POST", "/sessions", `{"continue_recent":true}`)); s.ID != "a" {
		t.Errorf("got %+v", s)
	}
	if s := w.sessionOf(w.want(200, "POST", "/sessions", `{"continue_recent":true,"resume":"b"}`)); s.ID != "b" {
		t.Errorf("an id that is given comes first: got %+v", s)
	}
	if s := w.sessionOf(w.want(201, "POST", "/sessions", `{"continue_recent":false}`)); s.ID == "a" || s.ID == "b" {
		t.Errorf("got %+v", s)
	}
}

func TestD14_AForkLeavesTheOriginal(t *testing.T) {
	w := newWorld(t)
	w.talk("s", 2)
	fork := w.sessionOf(w.want(201, "POST", "/sessions", `{"resume":"s","fork":true,"id":"copy"}`))
	if fork.ID != "copy" || fork.MessageCount != 2 {
		t.Errorf("got %+v", fork)
	}
	w.want(200, "POST", "/sessions/copy/messages", saying(3, 3))
	if s, c := w.heard("s"), w.heard("copy"); s != "1 2" || c != "1 2 3" {
		t.Errorf("the original has %s, the fork %s", s, c)
	}
	w.want(409, "POST", "/sessions", `{"resume":"s","fork":true,"id":"copy"}`)
}

func TestD15_TheHistoryIsCutBehindAMessage(t *testing.T) {
	w := newWorld(t)
	w.talk("s", 5)
	for _, tt := range []struct{ at, want string }{
		{"unknown", "1 2 3 4 5"}, {"u5", "1 2 3 4 5"}, {"u3", "1 2 3"}, {"u4", "1 2 3"}, {"u1", "1"},
	} {
		w.want(200, "POST", "/sessions", `{"resume":"s","resume_at":"`+tt.at+`"}`)
		if got := w.heard("s"); got != tt.want {
			t.Errorf("at %s: got %s, want %s", tt.at, got, tt.want)
		}
	}
	w.want(200, "PUT", "/sessions/s/messages", strings.ReplaceAll(saying(1, 3), `"uuid"`, `"id"`))
	s := w.sessionOf(w.want(200, "POST", "/sessions", `{"resume":"s","resume_at":"u2"}`))
	if s.MessageCount != 2 || s.FirstPrompt != "say 1" {
		t.Errorf("by its id: got %+v", s)
	}
	w.want(201, "POST", "/sessions", `{"id":"silent"}`)
	w.want(200, "POST", "/sessions", `{"resume":"silent","resume_at":"u2"}`)
}

// TestACutIsToldAsAChange: who follows the session hears of it.
func TestACutIsToldAsAChange(t *testing.T) {
	w := newWorld(t)
	w.talk("s", 3)
	res := w.send(tool.RoleAgent, "GET", "/events?type=session_changed&type=session_deleted", strings.NewReader(""))
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	w.want(200, "POST", "/sessions", `{"resume":"s","resume_at":"u1"}`)
	w.want(200, "DELETE", "/sessions/s", "")
	if name, ev := next(t, in); name != string(events.SessionChanged) || ev.Session != "s" {
		t.Errorf("first came %s %+v", name, ev)
	}
}

func TestD16_AllThreeOptionsInTheirOrder(t *testing.T) {
	w := newWorld(t)
	w.talk("old", 5)
	w.talk("new", 5)
	for _, tt := range []struct {
		body        string
		status      int
		from        string
		kept, after string // messages of the session that is answered, and of the one that it was
	}{
		{`{"continue_recent":true,"fork":true,"resume_at":"u4"}`, 201, "new", "1 2 3 4", "1 2 3 4 5"},
		{`{"resume":"old","fork":true,"resume_at":"u3"}`, 201, "old", "1 2 3", "1 2 3 4 5"},
		{`{"resume":"old","fork":true,"resume_at":"unknown"}`, 201, "old", "1 2 3 4 5", "1 2 3 4 5"},
		{`{"resume":"new","resume_at":"u2"}`, 200, "new", "1 2", "1 2"},
		{`{"continue_recent":true,"resume_at":"u1"}`, 200, "new", "1", "1"},
		{`{"continue_recent":true,"fork":true}`, 201, "new", "1", "1"},
	} {
		w.want(200, "PATCH", "/sessions/"+tt.from, `{}`) // it changed last
		s := w.sessionOf(w.want(tt.status, "POST", "/sessions", tt.body))
		if got := w.heard(s.ID); got != tt.kept || (s.ID == tt.from) != (tt.status == 200) {
			t.Errorf("%s: got %s with %s, want %s", tt.body, s.ID, got, tt.kept)
		}
		if got := w.heard(tt.from); got != tt.after {
			t.Errorf("%s: %s has %s, want %s", tt.body, tt.from, got, tt.after)
		}
	}
	for _, body := range []string{
		`{"fork":true}`, `{"resume_at":"u1"}`, `{"fork":true,"resume_at":"u1"}`, `{"resume":"old","resume_at":""}`,
		`{"resume":"old","reuse":true}`, `{"resume":"old","id":"x"}`, `{"continue_recent":true,"id":"x"}`,
		`{"resume":"old","cwd":"/"}`, `{"resume":"old","mode":"plan"}`, `{"resume":"old","metadata":{}}`,
		`{"resume":"old","parent":"new"}`, `{"resume":"old","agent":"Explore"}`,
		`{"resume":"old","allowed_tools":["Read"]}`, `{"resume":"old","disallowed_tools":["Bash"]}`,
	} {
		w.want(400, "POST", "/sessions", body)
	}
}

// An operator who names no account resumes and forks the sessions of all of them, for them.
func TestAnOperatorResumesForAnAccount(t *testing.T) {
	w := newWorld(t)
	w.talk("s", 3)
	w.do(tool.RoleOperator, "POST", "/sessions", `{"resume":"s","fork":true,"id":"copy","resume_at":"u2"}`)
	if got := w.heard("copy"); got != "1 2" { // as the agent sees it
		t.Errorf("got %s", got)
	}
}

// Nothing of what two clients add at once is lost, and each finds its own in its order.
func TestD04_TwoWritersAtOnce(t *testing.T) {
	w := newWorld(t)
	w.want(201, "POST", "/sessions", `{"id":"s"}`)
	const writers, each = 4, 10
	var g sync.WaitGroup
	for n := range writers {
		g.Go(func() {
			for i := range each {
				body := fmt.Sprintf(`{"messages":[{"role":"user","content":"","uuid":"%d-%d"}]}`, n, i)
				if a := w.do(tool.RoleAgent, "POST", "/sessions/s/messages", body); a.status != 200 {
					t.Errorf("got %s", a.body)
				}
			}
		})
	}
	g.Wait()
	next := [writers]int{}
	for _, name := range strings.Fields(w.heard("s")) {
		var n, i int
		if _, err := fmt.Sscanf(name, "%d-%d", &n, &i); err != nil || next[n] != i {
			t.Fatalf("%s: %v, want %d of it", name, err, next[n])
		}
		next[n]++
	}
	if next != [writers]int{each, each, each, each} {
		t.Errorf("got %v of each", next)
	}
}
