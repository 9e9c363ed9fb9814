package integration

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// child makes the session of an agent that another one started.
func (d *running) child(parent, agent, more string) string {
	d.t.Helper()
	in := map[string]any{"parent": parent, "agent": agent}
	if err := json.Unmarshal([]byte(more), &in); err != nil {
		d.t.Fatal(err)
	}
	var s client.Session
	if err := d.agent.Do(d.t.Context(), http.MethodPost, "/sessions", in, &s); err != nil {
		d.t.Fatal(err)
	}
	return s.ID
}

func (d *running) does(c *client.Client, method, path string, in, out any) {
	d.t.Helper()
	if err := c.Do(d.t.Context(), method, path, in, out); err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
}

// TestN10_AChildIsHeldByTheSettingsOfItsParent: also by those that the parent gets later, for tools
// of the daemon and for programs in the sandbox.
func TestN10_AChildIsHeldByTheSettingsOfItsParent(t *testing.T) {
	d := newDaemon(t, "")
	d.write("ws/secret/key", "hidden words\n")
	parent := d.session()
	kid := d.child(parent, "kid", `{}`)
	grandkid := d.child(kid, "grandkid", `{"allowed_tools":["Read","Bash"]}`)
	read := func(session string) client.Result { return d.call(session, "Read", `{"file_path":"secret/key"}`) }
	cat := func(session string) client.Result { return d.call(session, "Bash", `{"command":"cat secret/key"}`) }
	for _, s := range []string{kid, grandkid} {
		if r := read(s); !strings.Contains(r.FinalText, "hidden words") {
			t.Fatalf("before: %+v", r)
		}
	}
	d.does(d.operator, http.MethodPatch, "/sessions/"+parent,
		map[string]any{"sandbox": map[string]any{"deniedPaths": []string{d.ws + "/secret"}, "deniedCommands": []string{"cat"}}}, nil)
	for _, s := range []string{parent, kid, grandkid} {
		for _, r := range []client.Result{read(s), cat(s)} {
			if r.Status == client.StatusSuccess || strings.Contains(r.FinalText, "hidden words") {
				t.Errorf("%s: %+v", s, r)
			}
		}
	}
	// A copy of a child is one, and stays below the same parent.
	var copied client.Session
	d.does(d.agent, http.MethodPost, "/sessions/"+grandkid+"/fork", map[string]any{}, &copied)
	if r := read(copied.ID); r.Status == client.StatusSuccess {
		t.Errorf("the copy: %+v", r)
	}
	if r := d.call(copied.ID, "Write", `{"file_path":"x","content":""}`); r.Status != client.StatusNotFound {
		t.Errorf("a tool that the source had not: %+v", r)
	}

	out, err := d.exec("sandboxd", "agents", "tree")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 5 || !strings.HasPrefix(lines[1], parent) || !strings.HasPrefix(lines[2], "  "+kid) ||
		!strings.HasPrefix(lines[3], "    "+grandkid) || !strings.Contains(lines[3], "grandkid") {
		t.Errorf("the tree: %v\n%s", err, out)
	}
	out, err = d.exec("sandboxd", "audit", "tail", "-n", "50", "--json")
	if want := `"agent":"grandkid","parents":["` + kid + `","` + parent + `"]`; err != nil || !strings.Contains(out, want) {
		t.Errorf("the record lacks %s: %v\n%s", want, err, out)
	}

	d.does(d.agent, http.MethodDelete, "/sessions/"+kid, nil, nil)
	if r := d.agent.Do(t.Context(), http.MethodGet, "/sessions/"+grandkid, nil, nil); errorCode(r) != "session_not_found" {
		t.Errorf("a session below one that was deleted: %v", r)
	}
}

// TestN10_AQuestionNamesTheAgentAndItsParents.
func TestN10_AQuestionNamesTheAgentAndItsParents(t *testing.T) {
	d := newDaemon(t, "sessions: {mode: default}\n")
	parent := d.session()
	kid := d.child(parent, "kid", `{"mode":"default"}`)
	done := make(chan client.Result, 1)
	go func() { done <- d.call(kid, "Write", `{"file_path":"x","content":"y"}`) }()
	var asked []struct {
		ID, Agent string
		Parents   []struct {
			Session string `json:"session_id"`
		}
	}
	if !waitFor(func() bool {
		d.does(d.operator, http.MethodGet, "/approvals?status=pending", nil, &asked)
		return len(asked) == 1
	}) {
		t.Fatal("nobody is asked")
	}
	if a := asked[0]; a.Agent != "kid" || len(a.Parents) != 1 || a.Parents[0].Session != parent {
		t.Errorf("got %+v", a)
	}
	d.does(d.operator, http.MethodPost, "/approvals/"+asked[0].ID, map[string]any{"approved": true}, nil)
	if r := <-done; r.Status != client.StatusSuccess {
		t.Errorf("got %+v", r)
	}
}
