package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
)

// How often a client gets progress of its call. Some clients give up after 60 s of silence.
const (
	progressEvery = 10 * time.Second
	progressLeast = 200 * time.Millisecond // between two lines of output
)

// running is a call of the daemon. It may last for two requests of the client.
type running struct {
	cancel context.CancelCauseFunc
	news   chan client.Progress // buffered; if it is full, output is dropped
	done   chan struct{}        // closed when result and err are set
	result client.Result
	err    error

	asked string // id of the approval that the client was shown last
	note  string // the last news
	steps float64
}

var (
	errDeclined = errors.New("the user declined at the client, so the call was ended and did not run")
	errExpired  = errors.New("the client did not come back for its call")
)

// call makes a call of a tool, or continues one that waits for a person.
func (f *Face) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ctx, untie := f.tied(ctx, req.Extra)
	defer untie()
	args := req.Params.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	mark := digest(f.Caller, f.Session, req.Params.Name, args)
	if state := req.Params.RequestState; state != "" {
		r, err := f.Holds.take(state, mark)
		if err != nil {
			return refused(err.Error()), nil
		}
		if answer, ok := req.Params.InputResponses[r.asked].(*mcp.ElicitResult); ok && answer.Action == "decline" {
			r.cancel(errDeclined)
		}
		return f.follow(ctx, req, r, mark)
	}
	return f.follow(ctx, req, f.start(ctx, req, args), mark)
}

// tied returns ctx, which also ends with the HTTP request of a message. In versions with sessions the SDK lets
// handlers outlive the request.
func (f *Face) tied(ctx context.Context, extra *mcp.RequestExtra) (context.Context, func()) {
	if f.request == nil || extra == nil {
		return ctx, func() {}
	}
	request, ok := f.request(extra.Header)
	ctx, cancel := context.WithCancel(ctx)
	if !ok { // the request ended before
		cancel()
		return ctx, cancel
	}
	stop := context.AfterFunc(request, cancel)
	return ctx, func() { stop(); cancel() }
}

// start begins a call with a context of its own. follow ties it to a request.
func (f *Face) start(ctx context.Context, req *mcp.CallToolRequest, args json.RawMessage) *running {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &running{cancel: cancel, news: make(chan client.Progress, 64), done: make(chan struct{})}
	send := f.API.Follow
	if req.Params.GetProgressToken() != nil {
		send = f.API.Stream
	}
	go func() {
		defer close(r.done)
		defer cancel(nil)
		defer func() {
			if p := recover(); p != nil { // the SDK's handlers do not recover panics of this goroutine
				f.Log.Error("a call over MCP panicked", "panic", p, "stack", string(debug.Stack()))
				r.err = errors.New("this call failed in sandboxd")
			}
		}()
		r.result, r.err = send(ctx, f.Session, req.Params.Name, args, func(p client.Progress) {
			if p.Output == nil {
				select {
				case r.news <- p:
				case <-ctx.Done():
				}
				return
			}
			select {
			case r.news <- p:
			default: // progress only shows that the call goes on; the result has the output
			}
		})
		if cause := context.Cause(ctx); r.err != nil && errors.Is(cause, errDeclined) {
			r.err = cause
		}
	}()
	return r
}

// follow passes news of a call to the client, until the call ends or the client must show a question to its user.
func (f *Face) follow(
	ctx context.Context, req *mcp.CallToolRequest, r *running, mark string,
) (*mcp.CallToolResult, error) {
	gone := context.AfterFunc(ctx, func() { r.cancel(context.Cause(ctx)) })
	defer gone()
	asks := asksBy(req)
	shown := func() {} // withdraws the question
	defer func() { shown() }()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var last time.Time
	for {
		select {
		case <-r.done:
			if r.err != nil {
				return refused(withHint(r.err)), nil
			}
			return f.result(r.result), nil
		case <-tick.C:
			r.tell(ctx, req)
		case p := <-r.news:
			shown()
			shown = func() {}
			switch {
			case p.Output != nil:
				r.note = lastLine(p.Output.Text)
				if time.Since(last) < progressLeast {
					continue
				}
				last = time.Now()
			case p.Waiting != nil:
				r.note = question(p.Waiting, f.Session)
				if asks == byResult && p.Waiting.Approval != r.asked && gone() {
					r.asked = p.Waiting.Approval
					return f.Holds.keep(r, mark, p.Waiting)
				}
				if asks == byRequest {
					shown = elicit(ctx, req, r)
				}
			case p.Began != nil:
				r.note = "running"
			}
			r.tell(ctx, req)
		}
	}
}

// tell sends progress, if the client wants progress.
func (r *running) tell(ctx context.Context, req *mcp.CallToolRequest) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return
	}
	r.steps++
	p := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: r.steps, Message: r.note}
	_ = req.Session.NotifyProgress(ctx, p) // if the client has left, ctx ends
}

// lastLine returns the last line of an output that is not empty, shortened.
func lastLine(text string) string {
	const most = 200
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 {
		return "running"
	}
	line := []rune(lines[len(lines)-1])
	return string(line[:min(len(line), most)])
}

// question returns the text for the user while a person is asked.
func question(w *client.Waiting, session string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A person is asked before this call goes on, until %s.", w.Until.Local().Format("15:04:05"))
	for _, reason := range w.Why {
		fmt.Fprintf(&b, "\n- %s", reason.Message)
	}
	fmt.Fprintf(&b, "\nAnswer it in another terminal: sandboxd approvals (%s, session %s)", w.Approval, session)
	return b.String()
}
