package integration

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// decide waits for the only question and answers it.
func (d *running) decide(decision map[string]any) {
	d.t.Helper()
	var asked []struct {
		ID string `json:"id"`
	}
	if !waitFor(func() bool {
		return d.operator.Do(d.t.Context(), "GET", "/approvals", nil, &asked) == nil && len(asked) == 1
	}) {
		d.t.Fatalf("no question came\n%s", d.log)
	}
	if err := d.operator.Do(d.t.Context(), "POST", "/approvals/"+asked[0].ID, decision, nil); err != nil {
		d.t.Fatal(err)
	}
}

// asks runs a command, and reports whether a person was asked, who then answers so.
func (d *running) asks(session, command string, decision map[string]any) (client.Result, bool) {
	d.t.Helper()
	done := make(chan client.Result, 1)
	ctx, cancel := context.WithCancel(d.t.Context())
	defer cancel()
	go func() {
		args, _ := json.Marshal(map[string]string{"command": command}) // text always encodes
		r, _ := d.agent.Call(ctx, session, "Bash", args)
		done <- r
	}()
	var r client.Result
	var asked []json.RawMessage
	if !waitFor(func() bool {
		select {
		case r = <-done:
			return true
		default:
			return d.operator.Do(ctx, "GET", "/approvals", nil, &asked) == nil && len(asked) == 1
		}
	}) {
		d.t.Fatalf("%s is neither answered nor asked about\n%s", command, d.log)
	}
	if len(asked) == 0 {
		return r, false
	}
	d.decide(decision)
	return <-done, true
}

// What a person allowed for a session, or answered too late for its call, is nothing to
// another session, although that has the same id.
func TestAnswersEndWithTheirSession(t *testing.T) {
	d := newDaemon(t, "sessions: {mode: default, maxMode: default}\nsandbox: {autoAllowBashIfSandboxed: false}\n")
	begin := func() {
		if err := d.agent.Do(t.Context(), "POST", "/sessions", map[string]any{"id": "again"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	end := func() {
		if err := d.agent.Do(t.Context(), "DELETE", "/sessions/again", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := d.agent.Call(ctx, "again", "Bash", json.RawMessage(`{"command":"touch late"}`))
		left <- err
	}()
	var asked []json.RawMessage
	if !waitFor(func() bool {
		return d.operator.Do(t.Context(), "GET", "/approvals", nil, &asked) == nil && len(asked) == 1
	}) {
		t.Fatalf("no question came\n%s", d.log)
	}
	leave()
	<-left
	d.decide(map[string]any{"approved": true}) // serves the call when it comes again
	yes := map[string]any{"approved": true, "remember": "session"}
	if r, asked := d.asks("again", "touch granted", yes); !asked || r.Status != "SUCCESS" {
		t.Fatalf("asked %v, got %+v", asked, r)
	}
	if r, asked := d.asks("again", "touch granted", yes); asked || r.Status != "SUCCESS" {
		t.Fatalf("with the grant: asked %v, got %+v", asked, r)
	}
	end()
	var grants []json.RawMessage
	if err := d.operator.Do(t.Context(), "GET", "/grants", nil, &grants); err != nil || len(grants) != 0 {
		t.Errorf("a deleted session has the grants %s, %v", grants, err)
	}
	begin()
	no := map[string]any{"approved": false}
	for _, command := range []string{"touch late", "touch granted"} { // as in the first, so that nothing else differs
		if r, asked := d.asks("again", command, no); !asked || r.Status != "EXECUTION_REJECTED" {
			t.Errorf("%s in the second session: asked %v, got %s", command, asked, r.Status)
		}
	}
}
