package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/mcp/upstream"
	"github.com/sandboxd/sandboxd/internal/mcp/vet"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// upstreamTool is one tool of a server.
type upstreamTool struct {
	v    *server
	name string // the server's own name for it
	pin  string
	spec tool.Spec
	hide []string // hidden arguments, which the schema leaves out
}

// upstreamTool makes the tool of a definition that was let in. Whatever the server claims, the tool is not read-only
// and may destroy (M-27).
func (v *server) upstreamTool(t kept.Tool, f vet.Found) *upstreamTool {
	var d struct {
		Description string      `json:"description"`
		Annotations tool.Claims `json:"annotations"`
	}
	_ = json.Unmarshal(t.Text, &d) // canonical JSON of the same fields
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(f.Schema, &s)
	u := &upstreamTool{v: v, name: t.Name, pin: t.Pin()}
	for _, name := range []string{"limit", "_limit"} {
		if _, declared := s.Properties[name]; !declared {
			u.hide = append(u.hide, name)
		}
	}
	u.spec = tool.Spec{
		Name: vet.Name(v.name, t.Name), Description: d.Description, Schema: f.Schema, Class: tool.ClassExec,
		Origin: tool.OriginMCP, MCP: &tool.MCP{Server: v.name, Tool: t.Name, Pin: u.pin, Claimed: d.Annotations},
	}
	if v.conf.Remote() {
		u.spec.Class = tool.ClassNet
	}
	return u
}

// Spec implements [tool.Tool].
func (u *upstreamTool) Spec() tool.Spec { return u.spec }

// Uses implements [tool.Tool]: the files and hosts that the arguments name.
func (u *upstreamTool) Uses(_ context.Context, in tool.In) (guard.Uses, error) { return u.v.uses(in) }

// Run implements [tool.Tool].
func (u *upstreamTool) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	args, err := u.arguments(in.Args)
	if err != nil {
		return tool.Output{}, err
	}
	if err := u.holds(ctx); err != nil {
		return tool.Output{}, err
	}
	var out tool.Output
	err = u.v.do(ctx, in, func(ctx context.Context, conn *upstream.Conn) error {
		answer, err := conn.Call(ctx, u.name, args, func(text string) {
			in.Emit(tool.Progress{Stream: "stdout", Output: []byte(text + "\n")})
		})
		if err != nil {
			return err
		}
		out, err = output(ctx, answer)
		return err
	}, &out)
	return out, err
}

// holds refuses a call if a person has let in another definition of the tool since.
func (u *upstreamTool) holds(ctx context.Context) error {
	holds, err := u.v.x.g.kept.Holds(ctx, u.v.pinned(), u.name, u.pin)
	if err != nil || holds {
		return err
	}
	u.v.again()
	return &tool.Error{
		Code: "mcp_tool_withheld",
		Msg:  fmt.Sprintf("MCP tool error: another definition of %s has been let in than this server gives", u.name),
		Hint: "sandboxd mcp servers says what is withheld; an operator can reconnect the server",
	}
}

// arguments returns what the server gets: everything except limit and _limit, which are the daemon's own.
func (u *upstreamTool) arguments(raw json.RawMessage) (json.RawMessage, error) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, err
	}
	for _, name := range u.hide {
		delete(args, name)
	}
	return json.Marshal(args)
}

// do makes one request to the server within its limits, and sweeps after it.
func (v *server) do(ctx context.Context, in tool.In, f func(context.Context, *upstream.Conn) error, out *tool.Output,
) error {
	conn, err := v.ready(ctx, in)
	if err != nil {
		return err
	}
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	timeout := v.conf.Timeout()
	if wall := time.Duration(in.Obligations.WallSeconds) * time.Second; wall > 0 {
		timeout = min(timeout, wall)
	}
	late := fmt.Errorf("no answer within %s", timeout)
	running, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	err = f(running, conn)
	if p := conn.Process(); p != nil {
		out.Denials = append(out.Denials, p.Sweep()...)
	}
	var own *tool.Error
	switch {
	case err == nil || ctx.Err() != nil || errors.As(err, &own):
		return err
	case errors.Is(context.Cause(running), late):
		err = late
	}
	return &tool.Error{
		Code: "mcp_error", Msg: "MCP tool error: " + v.x.g.host.Redact(fmt.Sprintf("%.2000s", err)),
		Hint: "sandboxd mcp servers shows the state of the server " + v.name,
	}
}

// ready returns the connection for one call, if the cage of the server can keep what the call promises.
func (v *server) ready(ctx context.Context, in tool.In) (*upstream.Conn, error) {
	v.mu.Lock()
	conn, state, settings := v.conn, v.state, v.settings
	now := time.Now()
	if now.Sub(v.minute) >= time.Minute {
		v.minute, v.calls = now, 0
	}
	v.calls++
	most := v.conf.Limits.WithDefaults().CallsPerMinute
	over := v.calls > most
	v.mu.Unlock()
	if conn == nil {
		return nil, &tool.Error{
			Code: "mcp_not_connected", Msg: fmt.Sprintf("MCP tool error: server %s is %s", v.name, state),
			Hint: "sandboxd mcp servers says why; an operator can reconnect it",
		}
	}
	if over {
		return nil, &tool.Error{
			Code: "rate_limited", Msg: fmt.Sprintf("server %s gets no more than %d calls in a minute", v.name, most),
			Hint: "wait a minute; an operator can raise the limit callsPerMinute of the server",
		}
	}
	if err := v.keeps(in.Obligations, settings); err != nil {
		return nil, err
	}
	s, err := v.x.current(ctx)
	if err != nil {
		return nil, err
	}
	x := v.companion()
	if v.conf.Remote() {
		return conn, nil // each connection is judged by the settings in force
	}
	want, err := v.x.g.host.Companions.Settings(s, x)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(want, settings) {
		go v.renew(conn)
		return nil, &tool.Error{
			Code: "mcp_not_connected",
			Msg:  fmt.Sprintf("the settings have changed, and server %s is started again under them", v.name),
			Hint: "call again in a moment",
		}
	}
	return conn, nil
}

// keeps refuses a call with obligations that the running cage cannot keep.
func (v *server) keeps(o guard.Obligations, s guard.Settings) error {
	refuse := func(what, has string) error {
		return &tool.Error{
			Code: "obligation_unmet", Stage: "run",
			Msg:  fmt.Sprintf("a policy allows this call only with %s, and server %s runs with %s", what, v.name, has),
			Hint: "an operator can change sandbox of the server, or the policy",
		}
	}
	if o.NoNetwork && (v.conf.Remote() || s.Network.Reaches()) {
		return refuse("no_network", "a network")
	}
	if writes := len(s.AllowedWritePaths) != 1 || s.AllowedWritePaths[0] != guard.NoPath; o.ReadOnly && writes {
		return refuse("read_only", "paths that it may write")
	}
	return nil
}

// need takes memory from the budget of the call.
func need(ctx context.Context, bytes int64) error { return budget.Of(ctx).Wait(ctx, bytes) }
