package integration

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/tests/pty"
)

// onTerminal starts an agent on a terminal of its own.
func onTerminal(t *testing.T, r *Run) (person *os.File) {
	t.Helper()
	person, program := pty.Open(t, 200)
	r.Stdin, r.Stdout, r.Stderr = program, program, program
	r.SysProcAttr = pty.Session()
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	program.Close()
	return person
}

func typed(t *testing.T, person *os.File, text string) {
	t.Helper()
	if _, err := person.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// Ctrl-C ends the turn; the next prompt is worked on, and one between prompts ends the agent.
func TestPromptsAreTypedAndInterrupted(t *testing.T) {
	d := NewDaemon(t, bin, "")
	m := NewModel(t, Step{Text: "I wait", Calls: []Call{bash("a", "sleep 1000")}}, Step{Text: "I go on \x1b[2J\a"})
	r := d.Command(m)
	person := onTerminal(t, r)
	const prompt = "sandboxd-agent> "
	pty.Until(t, person, prompt)
	typed(t, person, "wait\n")
	pty.Until(t, person, "sleep 1000")
	d.Eventually("the call runs", func() bool {
		var running []any
		return d.Agent.Do(t.Context(), "GET", "/calls", nil, &running) == nil && len(running) == 1
	})
	typed(t, person, "\x03")
	if shown := pty.Until(t, person, prompt); !strings.Contains(shown, "cancelled: 1 turns") {
		t.Errorf("the turn ends with %q", shown)
	}
	typed(t, person, "go on\n")
	shown := pty.Until(t, person, prompt)
	if strings.ContainsAny(shown, "\x1b\a") || !strings.Contains(shown, `I go on \u001b[2J\u0007`) {
		t.Errorf("the terminal is given %q", shown)
	}
	typed(t, person, "\x03")
	r.Wait()
	if code := r.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit %d", code)
	}
}

// Lines of JSON may hold controls of 8 bits, which a terminal obeys, too.
func TestLinesOfJSONOnATerminal(t *testing.T) {
	d := NewDaemon(t, bin, "")
	r := d.Command(NewModel(t, Step{Text: "a\u009b2Jb\u202ec"}), "--json", "go")
	person := onTerminal(t, r)
	shown := pty.Until(t, person, `"type":"result"`)
	r.Wait()
	if strings.ContainsAny(shown, "\u009b\u202e") || !strings.Contains(shown, `a\u009b2Jb\u202ec`) {
		t.Errorf("the terminal is given %q", shown)
	}
}

// Who closes the terminal loses nothing of the conversation.
func TestTheTerminalIsClosed(t *testing.T) {
	d := NewDaemon(t, bin, "")
	m := NewModel(t, Step{Text: "I wait", Calls: []Call{bash("a", "sleep 1000")}}, Step{Text: "on"})
	r := d.Command(m, "go")
	person := onTerminal(t, r)
	pty.Until(t, person, "sleep 1000")
	d.Eventually("the call runs", func() bool {
		var running []any
		return d.Agent.Do(t.Context(), "GET", "/calls", nil, &running) == nil && len(running) == 1
	})
	person.Close() // SIGHUP
	r.Wait()
	if status := r.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() || status.ExitStatus() != 130 {
		t.Errorf("it ended with %v", r.ProcessState)
	}
	ends(t, d.Command(m, "--json", "--continue", "on"), 0, "success")
	if raw := m.Asked()[1].Raw; !strings.Contains(raw, "cancelled while it ran") {
		t.Errorf("it goes on with %s", raw)
	}
}

// A question is shown with what a person has to do; what it is about is not obeyed by the terminal.
func TestAQuestionIsShown(t *testing.T) {
	d := NewDaemon(t, bin, "")
	repository(t, d)
	m := NewModel(t, Step{Calls: []Call{bash("a", "git push --force")}}, Step{Text: "refused"})
	r := d.Command(m, "publish")
	person := onTerminal(t, r)
	shown := pty.Until(t, person, "approvals approve")
	d.Decide(d.Waiting(), false)
	shown += pty.Until(t, person, "success: 2 turns")
	r.Wait()
	for _, want := range []string{"Bash asks: ", "it waits until ", "ask, execution_rejected"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in %s", want, shown)
		}
	}
}
