package integration

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestAnAnswerIsOfOneHome: an answer about a call that a client runs itself holds for the HOME of that client, and an
// edit of it is judged there.
func TestAnAnswerIsOfOneHome(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "sessions: {mode: default}\nsandbox: {autoAllowBashIfSandboxed: false}\n"+
		"policy: {rules: {deny: [\"Read(**/hidden)\"]}}\n")
	s := d.session()
	home := filepath.Join(d.ws, "home")
	type answer struct {
		Decision struct {
			Verdict string `json:"verdict"`
		} `json:"decision"`
		Args struct {
			Command string `json:"command"`
		} `json:"updated_args"`
		err error
	}
	decide := func(home string) chan answer {
		done := make(chan answer, 1)
		go func() {
			var a answer
			in := map[string]any{
				"session_id": s, "tool": "Bash", "wait": true, "home": home, "args": map[string]any{"command": "touch ~/a"},
			}
			a.err = d.agent.Do(t.Context(), "POST", "/decide", in, &a)
			done <- a
		}()
		return done
	}
	say := func(q question, yes map[string]any) error {
		return d.operator.Do(t.Context(), "POST", "/approvals/"+q.ID, yes, nil)
	}
	edit := func(command string) map[string]any {
		return map[string]any{"approved": true, "args": map[string]any{"command": command}}
	}

	d.write("ws/home/a", "a\n")
	d.write("ws/home/hidden", "b\n")
	first := decide(home)
	q := d.waiting(1)[0]
	if writes := strings.Join(q.Facts.Writes, " "); writes != home+"/a" {
		t.Errorf("the question is about %s, want %s/a", writes, home)
	}
	if err := say(q, edit("cat ~/hidden")); err == nil || !strings.Contains(err.Error(), "cannot run with these arguments") {
		t.Errorf("an edit to what is denied in the HOME of the client: %v", err)
	}
	if err := say(q, edit("touch ~/a ~/a")); err != nil {
		t.Fatal(err)
	}
	if a := <-first; a.err != nil || a.Decision.Verdict != "allow" || a.Args.Command != "touch ~/a ~/a" {
		t.Errorf("after an edit: %+v", a)
	}

	second := decide(home)
	d.answer(d.waiting(1)[0].ID, true) // for the session
	if a := <-second; a.err != nil || a.Decision.Verdict != "allow" {
		t.Errorf("after a yes: %+v", a)
	}
	if a := <-decide(home); a.err != nil || a.Decision.Verdict != "allow" {
		t.Errorf("the same again: %+v", a)
	}
	other := decide(d.ws)
	if err := say(d.waiting(1)[0], map[string]any{"approved": false}); err != nil {
		t.Fatal(err)
	}
	if a := <-other; a.err != nil || a.Decision.Verdict != "deny" {
		t.Errorf("with another HOME: %+v", a)
	}
}
