package daemon

import (
	"context"
	"log/slog"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/metrics"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// notified is a record that also publishes its lines as events and logs the end of each call.
type notified struct {
	pipeline.Record
	events *events.Broker
	log    *slog.Logger
	redact func(string) string
	ended  func(*tool.Call)
}

func (d *daemon) notified(c *components) notified {
	return notified{d.record, d.events, c.log, c.redactor.String, d.ended}
}

// Begin publishes the start of a call after it is recorded.
func (t notified) Begin(ctx context.Context, c *tool.Call) error {
	err := t.Record.Begin(ctx, c)
	if err == nil {
		t.events.Publish(callEvent(events.CallBegin, c))
	}
	return err
}

// End publishes the end of a call after it is recorded.
func (t notified) End(ctx context.Context, c *tool.Call) error {
	err := t.Record.End(ctx, c)
	if err == nil {
		ev := callEvent(events.CallEnd, c)
		ev.Status = string(c.Result.Status)
		if c.Result.Error != nil {
			ev.Code = c.Result.Error.Code
		}
		for _, row := range c.Network.Connections {
			t.events.Publish(connectionEvent(c, row, "ended"))
		}
		t.events.Publish(ev)
		t.ended(c)
	}
	if t.log.Enabled(ctx, slog.LevelDebug) {
		text := c.Result.FormattedText
		line := tool.LogLine(c.Tool, c.Spec, []byte(t.redact(string(c.In.Args))), t.redact(text[:min(len(text), 4096)]),
			c.Result.Status)
		t.log.Debug("call", "call_id", c.ID, "session_id", c.Request.Session, "line", line)
	}
	return err
}

// callEvent takes the name of the tool from its spec. The name in the call was written by the model and may be any
// text.
func callEvent(what events.Type, c *tool.Call) events.Event {
	return events.Event{
		Type: what, Account: c.Request.Account, Session: c.Request.Session, Call: c.ID, Tool: c.Spec.Name,
	}
}

// connected publishes a decision about a connection.
func (d *daemon) connected(c *tool.Call, conn egress.Connection, v egress.Verdict) {
	row := egress.Row{
		Host: conn.Host, Port: conn.Port, Protocol: conn.Protocol, Via: conn.Via, Verdict: egress.Denied, Rule: v.Rule,
	}
	if v.Allow {
		row.Verdict = egress.Allowed
	}
	d.events.Publish(connectionEvent(c, row, row.Verdict))
}

func connectionEvent(c *tool.Call, row egress.Row, status string) events.Event {
	ev := callEvent(events.Connection, c)
	row.Reason = "" // a person may have written it
	ev.Status, ev.Connection = status, &row
	return ev
}

// watchQuestions publishes questions and answers as events, and counts the questions
// that wait.
func watchQuestions(ctx context.Context, q *approvals.Queue, set *metrics.Set, out *events.Broker) error {
	for ctx.Err() == nil {
		set.ApprovalsPending(q.Pending())
		open := false
		for e := range q.Subscribe(ctx) { // ends early if this reader falls behind
			open = true
			set.ApprovalsPending(q.Pending())
			ev := approvals.AskedEvent(events.Type(e.Kind), e.Item)
			ev.Grant = e.Grant
			out.Publish(ev)
			if e.Kind == approvals.EventAsked && q.Own(e.Item) { // whoever asks waits
				ev.Type = events.CallWaiting
				out.Publish(ev)
			}
		}
		if !open {
			return nil // the daemon stops, so the queue is closed
		}
	}
	return nil
}
