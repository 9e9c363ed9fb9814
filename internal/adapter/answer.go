package adapter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Timeout ends before the agents give up on a hook that was configured by
// hand, because most of them run the call then.
const Timeout = 50 * time.Second

// Blocks is the exit status that every agent takes for a denial, with stderr as
// the reason.
const Blocks = 2

// maxInput bounds what is read from the agent: a written file is in it.
const maxInput = 32 << 20

// Caller sends one request to the daemon on the agent socket; package client has one.
type Caller interface {
	Do(ctx context.Context, method, path string, in, out any) error
}

// Options say whose hook is answered, and how.
type Options struct {
	Agent      string // the name of a client of package clients
	Exe        string // path of sandboxd, which runs judged commands in the cage
	AskOnError bool   // ask the agent's person where the daemon cannot judge, instead of denying
	Wait       bool   // where the rules ask, wait for whoever watches the daemon
}

// Answer reads one hook call from in and writes the answer to out, in the contract
// of the agent. An error must block the call: the caller prints it and exits with
// the status Blocks.
func Answer(ctx context.Context, api Caller, in io.Reader, out io.Writer, o Options) error {
	c, ok := clients.Find(o.Agent)
	if !ok {
		return unknownAgent(o.Agent)
	}
	return hook{api, o, c}.run(ctx, in, out)
}

func unknownAgent(name string) error {
	return &tool.Error{
		Code: "unknown_agent", Msg: fmt.Sprintf("unknown agent %q", name),
		Hint: "use one of " + strings.Join(clients.Names(), ", "),
	}
}

// hook answers one call of another agent.
type hook struct {
	api Caller
	Options
	client clients.Client
}

// hookEvent is what the agents send, as far as it matters here. They add fields
// with every version.
type hookEvent struct {
	Event, Session, Dir, Tool, UseID, Error string
	Input                                   map[string]json.RawMessage
	Response                                json.RawMessage // of PostToolUse and AfterTool
	MCP                                     mcpContext
}

// mcpContext is what Gemini says of a tool of an MCP server.
type mcpContext struct {
	Server string `json:"server_name"`
	Tool   string `json:"tool_name"`
}

// readEvent reads a hook call as the agents do that wrote it: each field by exactly its
// name. encoding/json would take tool_input from Tool_Input, which the agent does not run.
func readEvent(body []byte) (i hookEvent, err error) {
	if err := strictjson.Check(body); err != nil { // a field given twice could hide what runs
		return i, fmt.Errorf("the hook call is not valid JSON: %w", err)
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		return i, fmt.Errorf("the hook call is not a JSON object: %w", err)
	}
	for name, field := range map[string]any{
		"hook_event_name": &i.Event, "session_id": &i.Session, "cwd": &i.Dir, "tool_name": &i.Tool,
		"tool_input": &i.Input, "tool_use_id": &i.UseID, "tool_response": &i.Response, "error": &i.Error,
		"mcp_context": &i.MCP,
	} {
		for other, value := range given {
			switch {
			case other == name:
				if err := json.Unmarshal(value, field); err != nil {
					return i, fmt.Errorf("%s of the hook call: %w", name, err)
				}
			case strings.EqualFold(other, name):
				return i, fmt.Errorf("the hook call has a field %q, which is not %q", other, name)
			}
		}
	}
	return i, nil
}

// outcome is the answer before it is put into the contract of an agent.
type outcome struct {
	verdict tool.Verdict
	reason  string
	input   map[string]json.RawMessage // rewritten; nil is unchanged
	todo    string                     // what the model can do about it
	passes  bool                       // the agent goes on by its own rules
	caged   bool                       // a rewrite runs it through sandboxd exec
}

// run reads one call and writes the answer. An error must block the call.
func (h hook) run(ctx context.Context, in io.Reader, out io.Writer) error {
	body, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return fmt.Errorf("read the hook call: %w", err)
	}
	if len(body) > maxInput {
		return fmt.Errorf("the hook call is larger than %d bytes", maxInput)
	}
	i, err := readEvent(body)
	if err != nil {
		return err
	}
	switch i.Event {
	case "PreToolUse", "BeforeTool", "PermissionRequest", "PostToolUse", "PostToolUseFailure", "AfterTool":
	case "":
		return errors.New("the hook call names no event")
	default:
		if i.Tool == "" { // a session began, a prompt came: nothing to decide
			return nil
		}
		// Silence would let the call run. An event of a later version, or one that is
		// spelled in another case, must not pass unjudged.
		return fmt.Errorf("the event %q comes with a call of %s, and this version cannot judge it; "+
			"want PreToolUse, PermissionRequest or BeforeTool, spelled so", i.Event, i.Tool)
	}
	if i.Tool == "" || !filepath.IsAbs(i.Dir) {
		return fmt.Errorf("the hook call names no tool (%q) or no absolute directory (%q)", i.Tool, i.Dir)
	}
	if i.ended() {
		return h.after(ctx, i, out)
	}
	return writeOutcome(out, h.Agent, i.Event, h.answer(ctx, i))
}

// answer judges the call. Every failure denies or asks.
func (h hook) answer(ctx context.Context, i hookEvent) outcome {
	calls, err := translate(h.client, i)
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return outcome{verdict: tool.Deny, reason: e.Msg, todo: e.Hint}
	}
	if err != nil {
		return outcome{verdict: tool.Ask, reason: err.Error()}
	}
	if len(calls) == 0 {
		return outcome{passes: true}
	}
	var a outcome
	for _, call := range calls {
		if a = h.judge(ctx, i, call); a.verdict != tool.Allow {
			break
		}
		if a.input != nil && len(calls) > 1 {
			return outcome{
				verdict: tool.Deny, reason: "a rule allows a part of this call only with other arguments",
				todo: "make one call for each file",
			}
		}
	}
	return a
}

// judge lets the daemon judge one call.
func (h hook) judge(ctx context.Context, i hookEvent, call ourCall) outcome {
	if id, ok := uncage(h.Exe, textOf(call.args["command"])); ok && call.tool == "Bash" && !call.outside {
		return h.judged(ctx, i, id)
	}
	d, err := h.decide(ctx, i, call)
	if err != nil {
		return h.notJudged(ctx, err)
	}
	a := outcome{verdict: d.Decision.Verdict}
	a.reason, a.todo = firstReason(d.Decision)
	if call.noCage && a.verdict == tool.Allow {
		a.verdict, a.reason = tool.Ask, "the command wants to run outside of the sandbox"
	}
	if d.Args != nil && !sameJSON(d.Args, call.args) {
		a.input = call.back(h.client.Tool(i.Tool), i.Input, d.Args)
	}
	if h.leases(call) && a.verdict == tool.Allow {
		a.caged = true
		a.input = call.back(h.client.Tool(i.Tool), i.Input, map[string]json.RawMessage{
			"command": jsonText(cage(h.Exe, d.CallID)),
		})
	}
	return a
}

// notJudged returns the answer when the daemon gave none.
func (h hook) notJudged(ctx context.Context, err error) outcome {
	a := outcome{verdict: tool.Deny, reason: "this call cannot be judged: " + err.Error()}
	if e, ok := errors.AsType[*client.Error](err); ok {
		a.todo = e.Hint
	}
	if cause := context.Cause(ctx); cause != nil {
		a.reason, a.todo = cause.Error(), ""
	}
	if h.AskOnError {
		a.verdict = tool.Ask
	}
	return a
}

// leases reports whether sandboxd exec runs the call once it is allowed: Codex takes no
// rewrite, and has a sandbox of its own.
func (h hook) leases(c ourCall) bool {
	return c.tool == "Bash" && !c.outside && !c.noCage && h.Agent != clients.Codex
}

// judged answers about a command that an answer of this hook made: it was judged,
// and is judged again when it runs.
func (h hook) judged(ctx context.Context, i hookEvent, id string) outcome {
	var state struct {
		Session string `json:"session_id"`
		Leased  bool   `json:"held"`
	}
	err := h.api.Do(ctx, http.MethodGet, "/calls/"+id, nil, &state)
	if err == nil && (!state.Leased || state.Session != sessionOf(h.Agent, i.Session)) {
		err = errors.New("it was run already, is older than ten minutes, or was judged for another session")
	}
	if err != nil {
		a := outcome{verdict: tool.Deny, reason: "call " + id + " cannot be run: " + err.Error()}
		a.todo = "send the command itself"
		return a
	}
	return outcome{verdict: tool.Allow, reason: "judged as " + id, caged: true}
}

// decideAnswer is what POST /decide answers.
type decideAnswer struct {
	CallID   string                     `json:"call_id"`
	Decision tool.Decision              `json:"decision"`
	Args     map[string]json.RawMessage `json:"updated_args"`
}

// decide asks the daemon, making the session when it is new.
func (h hook) decide(ctx context.Context, i hookEvent, c ourCall) (decideAnswer, error) {
	session := sessionOf(h.Agent, i.Session)
	args, err := json.Marshal(c.args)
	if err != nil {
		return decideAnswer{}, err
	}
	body := map[string]any{
		"session_id": session, "tool": c.tool, "args": json.RawMessage(args), "cwd": c.dir,
		"wait": h.Wait, "hold": h.leases(c), "outside": c.outside,
	}
	if home := os.Getenv("HOME"); home != "" && !h.leases(c) { // a shell without HOME takes that of the user database
		body["home"] = home
	}
	if h.Agent == clients.Codex && c.tool == "Bash" && !c.outside {
		body["typed"] = true // what Codex writes to a program that runs comes to no hook
	}
	var d decideAnswer
	err = h.inSession(ctx, i, func() error { return h.api.Do(ctx, http.MethodPost, "/decide", body, &d) })
	return d, err
}

// inSession asks the daemon something, and once more when the session had to be
// made for it.
func (h hook) inSession(ctx context.Context, i hookEvent, ask func() error) error {
	err := ask()
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "session_not_found" {
		return err
	}
	for _, dir := range h.begins(i) {
		err = h.api.Do(
			ctx, http.MethodPost, "/sessions",
			map[string]any{"id": sessionOf(h.Agent, i.Session), "cwd": dir, "title": h.Agent}, nil,
		)
		if e, ok := errors.AsType[*client.Error](err); ok && e.Code == "session_exists" {
			err = nil
		}
		if err == nil {
			return ask()
		}
	}
	return fmt.Errorf("make a session: %w", err)
}

// begins returns where our session may begin, the best first: permission rules count from there. The directory of a
// call is where the model went, so that of the project is better. It may be outside of our workspace.
func (h hook) begins(i hookEvent) []string {
	project := os.Getenv("CLAUDE_PROJECT_DIR") // set for hooks by Claude Code, and by Gemini as well
	if h.Agent != clients.ClaudeCode && h.Agent != clients.Gemini || !filepath.IsAbs(project) || project == i.Dir {
		return []string{i.Dir}
	}
	return []string{project, i.Dir}
}

// sessionOf names our session for a session of the agent. Their id may hold
// anything, so it is hashed.
func sessionOf(agent, id string) string {
	sum := sha256.Sum256([]byte(agent + "\x00" + id))
	return agent + "-" + hex.EncodeToString(sum[:12])
}

// sameJSON tells a rewrite from arguments that were only written anew.
func sameJSON(a, b map[string]json.RawMessage) bool {
	texts := [2]string{}
	for i, m := range []map[string]json.RawMessage{a, b} {
		raw, err := json.Marshal(m)
		if err != nil {
			return false
		}
		canonical, err := strictjson.Canonical(raw)
		if err != nil {
			return false
		}
		texts[i] = string(canonical)
	}
	return texts[0] == texts[1]
}

// firstReason is why, and what to do about it.
func firstReason(d tool.Decision) (why, todo string) {
	if len(d.Reasons) == 0 {
		return "the rules of sandboxd: " + d.Verdict.String(), ""
	}
	r := d.Reasons[0]
	return r.Message + " (" + r.Rule + ")", r.Hint
}
