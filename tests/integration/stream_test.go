package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
)

// TestBashStreams: what a command prints is at its client while the command runs.
func TestBashStreams(t *testing.T) {
	d := newDaemon(t, "")
	var out, errs strings.Builder
	var once sync.Once
	// The command ends when the client has seen both lines, and says so with a file.
	command := `{"command":"echo one; echo two >&2; until [ -e seen ]; do sleep 0.01; done; echo three"}`
	r, err := d.agent.Stream(t.Context(), d.session(), "Bash", json.RawMessage(command), func(p client.Progress) {
		if p.Output == nil {
			return
		}
		if p.Output.Stream == "stderr" {
			errs.WriteString(p.Output.Text)
		} else {
			out.WriteString(p.Output.Text)
		}
		if out.Len() > 0 && errs.Len() > 0 {
			once.Do(func() { d.write("ws/seen", "") })
		}
	})
	if err != nil || r.Status != client.StatusSuccess {
		t.Fatalf("got %+v, %v", r, err)
	}
	if out.String() != "one\nthree\n" || errs.String() != "two\n" || !strings.HasPrefix(r.FinalText, "one\nthree\ntwo\n") {
		t.Errorf("streamed %q and %q, result %q", &out, &errs, r.FinalText)
	}
}

// TestAClientThatLeavesEndsItsStream: and the processes of its call.
func TestAClientThatLeavesEndsItsStream(t *testing.T) {
	d := newDaemon(t, "")
	ctx, leave := context.WithCancel(t.Context())
	var began client.Began
	_, err := d.agent.Stream(ctx, d.session(), "Bash",
		json.RawMessage(`{"command":"while date +%s%N > beat; do echo beat; sleep 0.01; done"}`), func(p client.Progress) {
			if p.Began != nil {
				began = *p.Began
			}
			if p.Output != nil {
				leave()
			}
		})
	if err == nil {
		t.Fatal("the stream ended by itself")
	}
	var state struct {
		Running bool           `json:"running"`
		Result  *client.Result `json:"result"`
	}
	if !waitFor(func() bool {
		return d.agent.Do(t.Context(), "GET", "/calls/"+began.CallID, nil, &state) == nil && !state.Running
	}) {
		t.Fatal("the call still runs")
	}
	if state.Result.Error == nil || state.Result.Error.Code != "cancelled" ||
		!strings.Contains(state.Result.FinalText, "until then it wrote\nbeat\n") {
		t.Errorf("got %+v, want that it was cancelled, and what it wrote", state.Result)
	}
	beat, err := os.ReadFile(filepath.Join(d.ws, "beat"))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // ten beats
	if again, err := os.ReadFile(filepath.Join(d.ws, "beat")); err != nil || string(again) != string(beat) {
		t.Errorf("it goes on: %s, then %s, %v", beat, again, err)
	}
}

// TestCallShowsOutputOnATerminal: while it comes, harmless, and once.
func TestCallShowsOutputOnATerminal(t *testing.T) {
	d := newDaemon(t, "")
	p := d.on(80, "call", "Bash",
		`{"command":"printf 'one\\n\\033]0;title\\007'; until [ -e seen ]; do sleep 0.01; done; echo two >&2; exit 3"}`)
	screen := p.read(`\u001b]0;title`) // and the command still runs
	d.write("ws/seen", "")
	screen += p.read("Exit code: 3")
	if got := p.status(); got != 0 {
		t.Errorf("ended with %d", got)
	}
	if n := strings.Count(screen, "one"); n != 1 || strings.Contains(screen, "\x1b]") || !strings.Contains(screen, "two") {
		t.Errorf("got %q", screen)
	}
	p = d.on(80, "call", "Bash", `{"command":"echo one; sleep 60"}`)
	p.read("one")
	p.typed("\x03")
	if got := p.status(); got != 1 {
		t.Errorf("ended with %d after Ctrl-C", got)
	}
}
