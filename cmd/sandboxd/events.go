package main

import (
	"context"
	"log/slog"

	"github.com/sandboxd/sandboxd/api"
	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/metrics"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/tool"
)

// told is a record whose lines are also events, and the ends of calls lines of the
// log.
type told struct {
	pipeline.Record
	events *api.Events
	log    *slog.Logger
	redact func(string) string
}

// Begin tells of a call once it is recorded.
func (t told) Begin(ctx context.Context, c *tool.Call) error {
	err := t.Record.Begin(ctx, c)
	if err == nil {
		t.events.Publish(callEvent(api.EventCallBegin, c))
	}
	return err
}

// End tells of a call once its end is recorded.
func (t told) End(ctx context.Context, c *tool.Call) error {
	err := t.Record.End(ctx, c)
	if err == nil {
		ev := callEvent(api.EventCallEnd, c)
		ev.Status = string(c.Result.Status)
		if c.Result.Error != nil {
			ev.Code = c.Result.Error.Code
		}
		t.events.Publish(ev)
	}
	if t.log.Enabled(ctx, slog.LevelDebug) {
		text := c.Result.FormattedText
		line := tool.LogLine(c.Tool, c.Spec, []byte(t.redact(string(c.In.Args))), t.redact(text[:min(len(text), 4096)]), c.Result.Status)
		t.log.Debug("call", "call_id", c.ID, "session_id", c.Request.Session, "line", line)
	}
	return err
}

// callEvent names the tool as its spec does, never as the call: that name is the
// model's, and may be any text.
func callEvent(what api.EventType, c *tool.Call) api.Event {
	return api.Event{Type: what, Account: c.Request.Account, Session: c.Request.Session, Call: c.ID, Tool: c.Spec.Name}
}

// watchQuestions makes events of questions and answers, and counts who waits.
func watchQuestions(ctx context.Context, q *approvals.Queue, set *metrics.Set, events *api.Events) error {
	for ctx.Err() == nil {
		set.ApprovalsPending(q.Pending())
		open := false
		for e := range q.Subscribe(ctx) { // ends early when this fell behind
			open = true
			set.ApprovalsPending(q.Pending())
			events.Publish(api.AskedEvent(api.EventType(e.Kind), e.Item))
		}
		if !open {
			return nil // the queue is closed: the daemon stops
		}
	}
	return nil
}
