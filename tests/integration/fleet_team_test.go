package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/pgtest"
)

// TestFleet_TasksAreClaimedOnce: a hundred agents at two daemons want two hundred tasks, each of which two
// want at about the same time, one at each daemon.
func TestFleet_TasksAreClaimedOnce(t *testing.T) {
	const agents, tasks = 100, 200
	fleet := newFleet(t, pgtest.URL(t), "", 2)
	a := fleet[0]
	root := a.session()
	at := "/sessions/" + root + "/tasks"
	for i := range tasks {
		a.does(a.agent, http.MethodPost, at, map[string]any{"subject": fmt.Sprint("work ", i)}, nil)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards what follows
	claimed, lost := map[string]int{}, 0
	for i := range agents {
		wg.Go(func() {
			for n := 2 * i; n < 2*i+4; n++ {
				id := fmt.Sprintf("task_%d", n%tasks+1)
				err := fleet[i%2].agent.Do(t.Context(), http.MethodPatch, at+"/"+id, map[string]any{
					"status": "inProgress", "owner": fmt.Sprint("agent ", i),
					"expect": map[string]any{"status": "pending", "owner": ""},
				}, nil)
				mu.Lock()
				switch {
				case err == nil:
					claimed[id]++
				case errorCode(err) == "task_changed":
					lost++
				default:
					t.Errorf("agent %d: %v", i, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i := range tasks {
		if id := fmt.Sprintf("task_%d", i+1); claimed[id] != 1 {
			t.Errorf("%s was claimed %d times", id, claimed[id])
		}
	}
	if lost != tasks {
		t.Errorf("%d claims were refused, want %d", lost, tasks)
	}
}

// TestFleet_ATeamOverTwoDaemons: tasks, teams and messages are those of the tree, wherever its agents call.
func TestFleet_ATeamOverTwoDaemons(t *testing.T) {
	fleet := newFleet(t, pgtest.URL(t), "", 2)
	a, b := fleet[0], fleet[1]
	root := a.session()
	kid := a.child(root, "kid", `{}`)
	a.answers(root, "TaskCreate", `{"subject":"port it"}`, `Task created: task_1 - "port it" (pending)`)
	a.answers(root, "TeamCreate", `{"name":"n","members":["kid"]}`, `Team created: team_1 "n" with 1 members`)
	a.answers(root, "SendMessage", `{"to":"kid","message":"begin"}`, "Message sent to kid")
	if r := b.call(kid, "ReadMailbox", `{}`); !strings.Contains(r.FinalText, "self to kid (text): begin") {
		t.Errorf("the message at b: %q", r.FinalText)
	}
	if r := a.call(kid, "ReadMailbox", `{}`); !strings.HasPrefix(r.FinalText, "No messages.") {
		t.Errorf("it was read at b, and a has %q", r.FinalText)
	}
	// Who waits at a is woken by what is done at b.
	waits := a.ask(root, "TaskOutput", `{"task_id":"task_1","block":true,"timeout":60000}`)
	b.answers(kid, "TaskUpdate", `{"id":"task_1","status":"completed","output":"done at b"}`,
		`Task updated: task_1 - completed - "port it"`)
	if r := <-waits; !strings.HasPrefix(r.FinalText, "done at b") {
		t.Errorf("who waits at a got %+v", r)
	}
	a.refuses(root, "TaskUpdate", `{"id":"task_1","status":"inProgress"}`, "invalid_status_transition", "from completed")
	// What is left goes with the session, at the other daemon too.
	b.does(b.agent, http.MethodDelete, "/sessions/"+root, nil, nil)
	var s client.Session
	a.does(a.agent, http.MethodPost, "/sessions", map[string]any{"id": root}, &s)
	a.answers(root, "TaskList", `{}`, "No tasks found.")
}

// TestFleet_APinApprovedAtOneHoldsAtTheOther: one answer is enough for both, and what a session was given
// before is no longer what was let in.
func TestFleet_APinApprovedAtOneHoldsAtTheOther(t *testing.T) {
	server := mcpConfig(t, mcpScript{
		Tools: []json.RawMessage{mcpTool("echo", "Repeats words."), mcpTool("change", "Changes.")},
		Next:  []json.RawMessage{mcpTool("echo", "Repeats words twice."), mcpTool("change", "Changes.")},
	})
	fleet := newFleet(t, pgtest.URL(t), allowMCP+"mcp: {servers: {one: "+server+"}}\n", 2)
	a, b := fleet[0], fleet[1]
	a.linkMCP()
	atA, atB, old := a.session(), b.session(), b.session()
	for d, s := range map[string]*running{atA: a, atB: b, old: b} {
		s.mcpIs(d, "one", "connected")
	}
	a.good(atA, "mcp__one__change", `{}`)
	b.good(atB, "mcp__one__change", `{}`)
	a.mcpHas(atA, "one", "change")
	b.mcpHas(atB, "one", "change")
	questions := b.pinQuestions(2) // one of each daemon
	b.good(old, "mcp__one__echo", `{}`)
	if err := answer(b, questions[0].ID, true); err != nil {
		t.Fatal(err)
	}
	a.mcpHas(atA, "one", "change", "echo")
	b.mcpHas(atB, "one", "change", "echo")
	a.good(atA, "mcp__one__echo", `{}`)
	b.good(atB, "mcp__one__echo", `{}`)
	if e := b.bad(old, "mcp__one__echo", `{}`); e.Code != "mcp_tool_withheld" {
		t.Errorf("the definition of before: %+v", e)
	}
	b.mcpHas(old, "one", "change")
	for _, d := range fleet {
		var pins []struct{ Tool, By string }
		d.does(d.operator, http.MethodGet, "/mcp/pins", nil, &pins)
		if !slices.Contains(pins, struct{ Tool, By string }{"echo", "a person"}) || len(pins) != 2 {
			t.Errorf("pins are %+v", pins)
		}
	}
}
