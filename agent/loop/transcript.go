package loop

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/sandboxd/sandboxd/agent/provider"
)

// stored is a message as the daemon keeps it.
type stored struct {
	provider.Message
	UUID string `json:"uuid"`
	// Compact marks a summary of everything before it: going on begins there.
	Compact bool `json:"compact,omitempty"`
}

// transcript is the conversation, and how much of it is saved.
type transcript struct {
	loaded   bool
	messages []stored
	begin    int // of what the model still reads
	saved    int // of messages
	saving   chan error
}

func (t *transcript) add(m provider.Message) {
	t.messages = append(t.messages, stored{Message: m, UUID: rand.Text()})
}

// request returns what the model reads: turns of one side in a row are one, and every call has its result.
func (t *transcript) request() (all []provider.Message) {
	say := func(role string, content provider.Blocks) {
		switch last := len(all) - 1; {
		case len(content) == 0:
		case last >= 0 && all[last].Role == role:
			all[last].Content = slices.Concat(all[last].Content, content)
		default:
			all = append(all, provider.Message{Role: role, Content: content})
		}
	}
	var open []provider.Block // calls of the last answer
	for _, s := range t.messages[t.begin:] {
		if s.Role == "assistant" {
			say("user", answered(open, nil))
			say(s.Role, s.Content)
			open = s.Content.Calls()
			continue
		}
		say("user", append(answered(open, s.Content), s.Content...)) // a system's, too: it has no place in between
		open = nil
	}
	say("user", answered(open, nil))
	return all
}

// answered answers the calls that have no result: an agent was killed before it had one.
func answered(calls []provider.Block, results provider.Blocks) (missing provider.Blocks) {
	for _, c := range calls {
		if !slices.ContainsFunc(results, func(r provider.Block) bool { return r.ToolUseID == c.ID }) {
			text := "The agent ended before this call was answered. It may have run."
			missing = append(missing, provider.Result(c.ID, text, true))
		}
	}
	return missing
}

// load reads what was said before, once.
func (a *Agent) load(ctx context.Context) error {
	t := &a.history
	if t.loaded {
		return nil
	}
	a.tell(System{
		Subtype: "init", Session: a.session.ID, Model: a.options.Model, Dir: a.session.Dir, Mode: a.session.Mode,
	})
	for data, err := range a.daemon.Messages(ctx, a.session.ID, 0) {
		if err != nil {
			return fmt.Errorf("read the conversation: %w", err)
		}
		var s stored
		if err := json.Unmarshal(data, &s); err != nil {
			return fmt.Errorf("message %d of the conversation is not one of an agent: %w", len(t.messages), err)
		}
		if s.Compact {
			t.begin = len(t.messages)
		}
		t.messages = append(t.messages, s)
	}
	t.saved, t.loaded = len(t.messages), true
	a.context.grew(size(t.request()))
	return nil
}

// save saves what is new, while the agent goes on. After a save that failed the whole
// conversation is saved in its place, since nobody knows what came of that one.
func (a *Agent) save(ctx context.Context) {
	t := &a.history
	if a.saved(ctx) != nil || t.saving != nil {
		t.saved = 0
	}
	method, fresh := http.MethodPost, t.messages[t.saved:]
	if t.saved == 0 {
		method = http.MethodPut
	}
	if len(fresh) == 0 {
		return
	}
	t.saved = len(t.messages)
	in := map[string]any{"messages": fresh, "metadata": map[string]any{"model": a.options.Model}}
	// Who interrupts does not interrupt this.
	ctx, last, done := context.WithoutCancel(ctx), t.saving, make(chan error, 1)
	t.saving = done
	go func() {
		if last != nil {
			<-last
		}
		done <- a.patiently(ctx, full, func() error { return a.daemon.Do(ctx, method, a.path("/messages"), in, nil) })
	}()
}

// saved waits for the last save.
func (a *Agent) saved(ctx context.Context) error {
	if a.history.saving == nil {
		return nil
	}
	select {
	case err := <-a.history.saving:
		a.history.saving = nil
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
