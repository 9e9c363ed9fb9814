package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// defaultReason is what the model reads when a hook gave no reason (H-20).
const defaultReason = "Tool execution blocked by hook"

// Run is what one hook did.
type Run struct {
	Event    Event         `json:"event"`
	Session  string        `json:"session,omitempty"`
	Name     string        `json:"name"`
	Skipped  bool          `json:"skipped,omitempty"` // its matcher does not match
	Output   *Output       `json:"output,omitempty"`
	Err      string        `json:"error,omitempty"`
	OnError  FailureAction `json:"on_error,omitempty"` // applied, because of Err
	Duration time.Duration `json:"duration_ns"`
}

// Answer is the merged answer of the hooks of one event.
type Answer struct {
	Runs   []Run // every hook of the event, in order
	Advice tool.Advice
}

// Outputs returns the non-empty outputs, in order (H-18).
func (a Answer) Outputs() []Output {
	var all []Output
	for _, r := range a.Runs {
		if !r.Output.empty() {
			all = append(all, *r.Output)
		}
	}
	return all
}

// inHook marks a context that belongs to a notification, whose hooks cannot
// notify again.
type inHook struct{}

// Fire runs the hooks of an event and merges what they say. It returns an error
// only if the context ended: a hook that fails is in the answer.
func (r *Registry) Fire(ctx context.Context, event Event, in Input) (Answer, error) {
	var a Answer
	in.Event = event
	in = in.shown()
	for _, h := range r.of(event) {
		if err := ctx.Err(); err != nil {
			blocked := Answer{Advice: tool.Advice{Block: true, Reason: err.Error()}}
			return blocked, fmt.Errorf("hooks of %s: %w", event, err)
		}
		run := Run{Event: event, Session: in.SessionID, Name: h.Name}
		if !h.match(in.ToolName) && (in.CalledAs == "" || !h.match(in.CalledAs)) {
			run.Skipped = true
			a.Runs = append(a.Runs, run)
			continue
		}
		began := time.Now()
		out, err := r.run(ctx, h, in)
		run.Duration = time.Since(began)
		var args json.RawMessage
		if err == nil && out != nil {
			args, err = in.own(out.UpdatedInput)
		}
		if err == nil && out != nil && out.PermissionUpdate != nil {
			err = r.grants.set(context.WithoutCancel(ctx), in.SessionID, *out.PermissionUpdate)
		}
		if err != nil {
			if ctx.Err() != nil {
				continue // the caller left; the next turn says so
			}
			run.Err, run.OnError = err.Error(), h.OnError
			failed(&a.Advice, h, err)
		} else if out != nil {
			run.Output = out
			r.merge(ctx, &a.Advice, &in, *out, args)
		}
		a.Runs = append(a.Runs, run)
		if r.opts.Observe != nil {
			r.opts.Observe(run)
		}
	}
	if err := ctx.Err(); err != nil {
		return Answer{Advice: tool.Advice{Block: true, Reason: err.Error()}}, fmt.Errorf("hooks of %s: %w", event, err)
	}
	settle(&a.Advice)
	return a, nil
}

// run runs the hook and stops waiting for it when its time is over.
func (r *Registry) run(ctx context.Context, h hook, in Input) (*Output, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.timeout(), told("timed out after "+h.timeout().String()))
	defer cancel()
	switch h.kind() {
	case "function":
		return callHandler(ctx, h.Handler, in)
	case "http":
		return post(ctx, h.URL, in)
	}
	if h.Sandbox {
		return r.caged(ctx, h, in)
	}
	return r.command(ctx, h, in)
}

func callHandler(ctx context.Context, handler Handler, in Input) (*Output, error) {
	type answer struct {
		out *Output
		err error
	}
	done := make(chan answer, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- answer{nil, fmt.Errorf("panic: %v", p)}
			}
		}()
		out, err := handler(ctx, in)
		done <- answer{out, err}
	}()
	select {
	case a := <-done:
		if a.err != nil || a.out == nil {
			return nil, a.err
		}
		out := *a.out // the handler may hand out the same one again
		if n := out.Notification; n != nil {
			said := *n
			out.Notification = &said
		}
		return &out, out.check()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// merge adds one output to the advice, and hands a rewritten input to the next
// hook (H-22). args is that input for the tool that was called.
func (r *Registry) merge(ctx context.Context, a *tool.Advice, in *Input, out Output, args json.RawMessage) {
	switch {
	case out.blocks():
		if !a.Block {
			a.Block, a.Reason = true, first(out.why(), defaultReason)
		}
	case out.asks():
		a.Ask, a.Reason = true, first(a.Reason, out.why())
	case out.allows():
		a.Allow = true
	}
	if len(args) > 0 && (in.Event == PreToolUse || in.Event == PermissionRequest) {
		a.Args, in.ToolInput = args, args
		if in.CalledAs != "" {
			in.ToolInput = tool.ArgsAs(in.CalledAs, args)
		}
	}
	for _, text := range []string{out.SystemMessage, out.AdditionalContext} {
		if strings.TrimSpace(text) != "" {
			a.Messages = append(a.Messages, text)
		}
	}
	if out.Notification != nil {
		r.notify(ctx, in.SessionID, *out.Notification)
	}
}

// told is an error that the model may read: the daemon wrote every word of it, and the hook none.
type told string

func (t told) Error() string { return string(t) }

// failed applies onError. The model reads that a hook failed, not what the hook
// wrote about it.
func failed(a *tool.Advice, h hook, err error) {
	reason := fmt.Sprintf("hook %q failed", h.Name)
	if cause, ok := errors.AsType[told](err); ok {
		reason += fmt.Sprintf(" (%v)", cause)
	}
	switch h.OnError {
	case FailContinue:
	case FailAsk:
		a.Ask, a.Reason = true, first(a.Reason, reason)
	default:
		if !a.Block {
			a.Block, a.Reason = true, reason+", and blocks when it fails"
		}
	}
}

// settle keeps the strictest answer: a blocked call is neither rewritten nor allowed, and a call about which a hook
// asks is not allowed.
func settle(a *tool.Advice) {
	if a.Block {
		a.Ask, a.Args = false, nil
	}
	if a.Block || a.Ask {
		a.Allow = false
	}
}

// notify tells people, and the hooks of notifications once (H-25).
func (r *Registry) notify(ctx context.Context, session string, n Notification) {
	if r.opts.Notify != nil {
		r.opts.Notify(session, n)
	}
	if ctx.Value(inHook{}) != nil || !r.Has(NotificationEvent) {
		return
	}
	// Nothing uses the answer of these hooks, and Observe was told if one failed.
	_, _ = r.Fire(context.WithValue(ctx, inHook{}, true), NotificationEvent,
		Input{SessionID: session, Title: n.Title, Message: n.Body, Trigger: n.Level})
}
