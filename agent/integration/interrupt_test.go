package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestL17_InterruptedOnceItEndsWell(t *testing.T) {
	both(t, func(t *testing.T, provider string) {
		d := NewDaemon(t, bin, "")
		m := NewModel(t, Step{Text: "I wait", Calls: []Call{bash("a", "sleep 1000"), bash("b", "touch ran")}}, Step{Text: "on"})
		r := d.Command(m, "--provider", provider, "--json", "go")
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		d.Eventually("the call runs", func() bool { return strings.Contains(r.Out.String(), `"state":"running"`) })
		r.Process.Signal(syscall.SIGINT)
		r.Wait()
		end := r.Result(t)
		if r.ProcessState.ExitCode() != 130 || end["is_cancelled"] != true || end["text"] != "I wait" {
			t.Errorf("exit %d, %v", r.ProcessState.ExitCode(), end)
		}
		d.Eventually("the call is cancelled", func() bool {
			var running []any
			return d.Agent.Do(t.Context(), "GET", "/calls", nil, &running) == nil && len(running) == 0
		})
		if _, err := os.Stat(filepath.Join(d.Workspace, "ran")); err == nil {
			t.Error("the second call ran")
		}
		ends(t, d.Command(m, "--provider", provider, "--json", "--continue", "and on"), 0, "success")
		raw := m.Asked()[1].Raw
		for _, want := range []string{"cancelled while it ran", "did not run: the user interrupted", "and on"} {
			if !strings.Contains(raw, want) {
				t.Errorf("%q is not in %s", want, raw)
			}
		}
	})
}

func TestL17_InterruptedWithinAStream(t *testing.T) {
	d := NewDaemon(t, bin, "")
	release := make(chan struct{})
	defer close(release)
	m := NewModel(t, Step{Serve: func(w http.ResponseWriter, _ *http.Request) {
		text := Step{Text: "some text, more text"}.Anthropic()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, text[:strings.Index(text, "event: content_block_stop")])
		w.(http.Flusher).Flush()
		<-release
	}}, Step{Text: "on"})
	r := d.Command(m, "--json", "go")
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	d.Eventually("text comes", func() bool { return strings.Count(r.Out.String(), `"partialMessage"`) == 4 })
	r.Process.Signal(syscall.SIGTERM)
	r.Wait()
	if end := r.Result(t); r.ProcessState.ExitCode() != 130 || end["text"] != "some text, more text" || end["subtype"] != "cancelled" {
		t.Errorf("exit %d, %v", r.ProcessState.ExitCode(), end)
	}
	ends(t, d.Command(m, "--json", "--continue", "and on"), 0, "success")
	if raw := m.Asked()[1].Raw; !strings.Contains(raw, "some text, more text") {
		t.Errorf("it goes on with %s", raw)
	}
}

func TestInterruptedTwiceItEndsNow(t *testing.T) {
	d := NewDaemon(t, bin, "hooks:\n  stop:\n    - command: sleep 1000\n      timeout: 100000\n")
	m := NewModel(t, Step{Text: "done"})
	r := d.Command(m, "--json", "go")
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	d.Eventually("the answer is there", func() bool { return strings.Contains(r.Out.String(), `"assistant"`) })
	r.Process.Signal(syscall.SIGINT)
	r.Process.Signal(syscall.SIGTERM) // two of one kind may become one
	r.Wait()
	if r.ProcessState.ExitCode() != 130 {
		t.Errorf("exit %d\n%s", r.ProcessState.ExitCode(), r.Out)
	}
}

// Hooks that hang do not keep whoever interrupts.
func TestInterruptedItWaitsForNoHook(t *testing.T) {
	d := NewDaemon(t, bin, "hooks:\n  stop:\n    - command: sleep 1000\n      timeout: 100000\n")
	m := NewModel(t, Step{Text: "done"})
	r := d.Command(m, "--json", "go")
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	d.Eventually("the answer is there", func() bool { return strings.Contains(r.Out.String(), `"assistant"`) })
	r.Process.Signal(syscall.SIGINT)
	r.Wait()
	if end := r.Result(t); !strings.Contains(fmt.Sprint(end["errors"]), "hooks of stop were not told") {
		t.Errorf("the result is %v", end)
	}
}

// Wherever it is interrupted, the turn ends with a result, and the conversation can go on.
func TestL17_InterruptedAtEveryStage(t *testing.T) {
	hang := "    - command: touch \"$(dirname \"$HOOK_CWD\")/here\"; sleep 1000\n      timeout: 100000\n"
	here := func(d *Daemon, _ *Run, _ *Model) bool {
		_, err := os.Stat(filepath.Join(d.Work, "here"))
		return err == nil
	}
	asked := func(n int) func(*Daemon, *Run, *Model) bool {
		return func(_ *Daemon, _ *Run, m *Model) bool { return len(m.Asked()) == n }
	}
	silent := Step{Serve: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
	large := Step{Text: "I look", In: 15_000, Out: 10, Calls: []Call{bash("t", "true")}}
	for _, tt := range []struct {
		name, config string
		args         []string
		steps        []Step
		at           func(*Daemon, *Run, *Model) bool
	}{
		{"a hook of the prompt", "hooks:\n  userPromptSubmit:\n" + hang, nil, nil, here},
		{"before the first byte of an answer", "", nil, []Step{silent}, asked(1)},
		{"between two requests", "", []string{"--retry-base-ms", "20000"}, []Step{status(529)}, func(_ *Daemon, r *Run, _ *Model) bool {
			return strings.Contains(r.Out.String(), "asking again in")
		}},
		{"a hook of a call", "hooks:\n  preToolUse:\n" + hang, nil, []Step{{Calls: []Call{bash("a", "true")}}}, here},
		{"calls that only read", "hooks:\n  preToolUse:\n" + hang, nil, []Step{{Calls: []Call{
			{ID: "a", Name: "Glob", Args: `{"pattern": "*"}`}, {ID: "b", Name: "Glob", Args: `{"pattern": "*"}`}, bash("c", "touch ran"),
		}}}, here},
		{"a question that waits", "policy: {rules: {ask: [Bash]}}\n", nil, []Step{{Calls: []Call{bash("a", "touch ran")}}}, func(_ *Daemon, r *Run, _ *Model) bool {
			return strings.Contains(r.Out.String(), `"state":"waiting"`)
		}},
		{"the summary", "", []string{"--context-window", "25000"}, []Step{large, silent}, asked(2)},
		{"a hook of the summary", "hooks:\n  preCompact:\n" + hang, []string{"--context-window", "25000"}, []Step{large}, here},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDaemon(t, bin, tt.config)
			m := NewModel(t, tt.steps...)
			r := d.Command(m, append([]string{"--json", "go"}, tt.args...)...)
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
			d.Eventually("it is there", func() bool { return tt.at(d, r, m) })
			r.Process.Signal(syscall.SIGINT)
			r.Wait()
			if end := r.Result(t); r.ProcessState.ExitCode() != 130 || end["subtype"] != "cancelled" || fmt.Sprint(end["errors"]) != "[]" {
				t.Fatalf("exit %d, %v\n%s", r.ProcessState.ExitCode(), end, r.Err)
			}
			if _, err := os.Stat(filepath.Join(d.Workspace, "ran")); err == nil {
				t.Error("the call ran")
			}
			var messages []struct{ Role string }
			id := r.Result(t)["session_id"].(string)
			if err := d.Agent.Do(t.Context(), "GET", "/sessions/"+id+"/messages", nil, &messages); err != nil {
				t.Error(err)
			}
			if calls := len(r.Messages(t, "toolUse")); calls > 0 && (len(messages) < 3 || messages[2].Role != "user") {
				t.Errorf("%d calls, and %v is saved", calls, messages)
			}
		})
	}
}
