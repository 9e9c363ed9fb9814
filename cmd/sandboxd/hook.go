package main

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
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tool"
)

// The agents whose hooks can be answered.
const (
	agentClaude = "claude-code"
	agentCodex  = "codex"
	agentGemini = "gemini"
)

// hookTimeout ends before the agents give up on a hook that was configured by
// hand, because most of them run the call then.
const hookTimeout = 50 * time.Second

// blocks is the exit status that every agent takes for a denial, with stderr as
// the reason.
const blocks = 2

// maxHookInput bounds what is read from the agent: a written file is in it.
const maxHookInput = 32 << 20

// hookCmd answers the hooks of other agents.
func hookCmd() *cobra.Command {
	var agent, onError, ask string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "hook",
		Short: "Answer another agent's hook: judge its call by the rules of this daemon",
		Long: `Reads one hook call as JSON from stdin and answers in the contract of the agent.
Where the rules ask, it waits until a person has answered the daemon, or leaves
the question to the agent's own person with --ask agent. It never allows because
of a failure: if the daemon is away, the time is up or the input cannot be read,
it denies, or asks the agent's person with --on-error ask. An event that it does
not know is let pass if it comes without a tool call, and blocked if with one.

A command that is allowed is rewritten to "sandboxd exec --call ID", which runs
it once, in the cage.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			h := hook{api: client.New(agentSocketPath()), agent: agent, exe: exe, askOnError: onError == "ask", wait: ask == "daemon"}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("nobody answered within %v; an answer given until ten minutes from now serves the same call when it is sent again", timeout))
			defer cancel()
			err = h.check(onError, ask)
			if err == nil {
				err = h.run(ctx, cmd.InOrStdin(), cmd.OutOrStdout())
			}
			if err != nil {
				complain(cmd.ErrOrStderr(), err)
				return exitStatus(blocks)
			}
			return nil
		},
	}
	c.Flags().StringVar(&agent, "agent", agentClaude, "whose hook this is: claude-code, codex or gemini")
	c.Flags().StringVar(&onError, "on-error", "deny", "what to answer when the daemon cannot: deny or ask")
	c.Flags().StringVar(&ask, "ask", "daemon", "who answers where the rules ask: whoever watches the daemon, or the agent's own person")
	c.Flags().DurationVar(&timeout, "timeout", hookTimeout, "when to give up; the agent must wait longer for its hook")
	c.AddCommand(hookInstallCmd())
	return c
}

// agentSocketPath is where agents reach the daemon.
func agentSocketPath() string {
	return socketPath("SANDBOXD_SOCKET", "agent.sock")
}

// hook answers one call of another agent.
type hook struct {
	api        doer
	agent      string
	exe        string // of this program, to run judged commands in the cage
	askOnError bool
	wait       bool // for whoever watches the daemon, where the rules ask
}

func (h hook) check(onError, ask string) error {
	if _, ok := agentTools[h.agent]; !ok {
		return fmt.Errorf("unknown agent %q, want claude-code, codex or gemini", h.agent)
	}
	if onError != "deny" && onError != "ask" {
		return fmt.Errorf("unknown --on-error %q, want deny or ask", onError)
	}
	if ask != "daemon" && ask != "agent" {
		return fmt.Errorf("unknown --ask %q, want daemon or agent", ask)
	}
	return nil
}

// hookInput is what the agents send, as far as it matters here. They add fields
// with every version.
type hookInput struct {
	Event   string                     `json:"hook_event_name"`
	Session string                     `json:"session_id"`
	Dir     string                     `json:"cwd"`
	Tool    string                     `json:"tool_name"`
	Input   map[string]json.RawMessage `json:"tool_input"`
	UseID   string                     `json:"tool_use_id"`

	Response json.RawMessage `json:"tool_response"` // of PostToolUse and AfterTool
	Error    string          `json:"error"`         // of PostToolUseFailure
}

// hookAnswer is the outcome before it is put into the contract of an agent.
type hookAnswer struct {
	verdict tool.Verdict
	reason  string
	input   map[string]json.RawMessage // rewritten; nil is unchanged
	unknown bool                       // nobody judged the call
	caged   bool                       // a rewrite runs it through sandboxd exec
}

// run reads one call and writes the answer. An error must block the call.
func (h hook) run(ctx context.Context, in io.Reader, out io.Writer) error {
	body, err := io.ReadAll(io.LimitReader(in, maxHookInput+1))
	if err != nil {
		return fmt.Errorf("read the hook call: %w", err)
	}
	if len(body) > maxHookInput {
		return fmt.Errorf("the hook call is larger than %d bytes", maxHookInput)
	}
	if _, err := tool.Canonical(body); err != nil { // a field given twice could hide what runs
		return fmt.Errorf("the hook call is not valid JSON: %w", err)
	}
	var i hookInput
	if err := json.Unmarshal(body, &i); err != nil {
		return fmt.Errorf("read the hook call: %w", err)
	}
	switch i.Event {
	case "PreToolUse", "BeforeTool", "PermissionRequest", "PostToolUse", "PostToolUseFailure", "AfterTool":
	case "":
		return errors.New("the hook call names no event")
	default:
		if i.Tool == "" { // a session began, a prompt came: nothing to decide
			return nil
		}
		// Silence would let the call run: what waits for a verdict under a name of
		// tomorrow, or in another case, is not let through unjudged.
		return fmt.Errorf("the event %q comes with a call of %s, and this version cannot judge it; want PreToolUse, PermissionRequest or BeforeTool, spelled so", i.Event, i.Tool)
	}
	if i.Tool == "" || !filepath.IsAbs(i.Dir) {
		return fmt.Errorf("the hook call names no tool (%q) or no absolute directory (%q)", i.Tool, i.Dir)
	}
	if i.ended() {
		return h.after(ctx, i, out)
	}
	return writeHookAnswer(out, h.agent, i.Event, h.answer(ctx, i))
}

// answer judges the call. Every failure denies or asks.
func (h hook) answer(ctx context.Context, i hookInput) hookAnswer {
	call, err := translate(h.agent, i.Tool, i.Input, i.Dir)
	if err != nil {
		return hookAnswer{verdict: tool.Ask, reason: err.Error(), unknown: true}
	}
	if id, ok := uncage(h.exe, textOf(call.args["command"])); ok && call.tool == "Bash" {
		return h.judged(ctx, i, id)
	}
	d, err := h.decide(ctx, i, call)
	if err != nil {
		a := hookAnswer{verdict: tool.Deny, reason: "this call cannot be judged: " + err.Error()}
		if cause := context.Cause(ctx); cause != nil {
			a.reason = cause.Error()
		}
		if h.askOnError {
			a.verdict = tool.Ask
		}
		return a
	}
	a := hookAnswer{verdict: d.Decision.Verdict, reason: firstReason(d.Decision)}
	if call.noCage && a.verdict == tool.Allow {
		a.verdict, a.reason = tool.Ask, "the command wants to run outside of the sandbox"
	}
	if d.Args != nil && !sameJSON(d.Args, call.args) {
		a.input = call.back(h.agent, i.Tool, i.Input, d.Args)
	}
	if h.holds(call) && a.verdict == tool.Allow {
		a.caged = true
		a.input = call.back(h.agent, i.Tool, i.Input, map[string]json.RawMessage{"command": jsonText(cage(h.exe, d.CallID))})
	}
	return a
}

// holds tells that a call is run by sandboxd exec if it may run: Codex takes no
// rewrite, and has a sandbox of its own.
func (h hook) holds(c hookCall) bool { return c.tool == "Bash" && !c.noCage && h.agent != agentCodex }

// judged answers about a command that an answer of this hook made: it was judged,
// and is judged again when it runs.
func (h hook) judged(ctx context.Context, i hookInput, id string) hookAnswer {
	var state struct {
		Session string `json:"session_id"`
		Held    bool   `json:"held"`
	}
	err := h.api.Do(ctx, http.MethodGet, "/calls/"+id, nil, &state)
	if err == nil && (!state.Held || state.Session != hookSession(h.agent, i.Session)) {
		err = errors.New("it was run already, is older than ten minutes, or was judged for another session; send the command itself")
	}
	if err != nil {
		return hookAnswer{verdict: tool.Deny, reason: "call " + id + " cannot be run: " + err.Error()}
	}
	return hookAnswer{verdict: tool.Allow, reason: "judged as " + id, caged: true}
}

// decideAnswer is what POST /decide answers.
type decideAnswer struct {
	CallID   string                     `json:"call_id"`
	Decision tool.Decision              `json:"decision"`
	Args     map[string]json.RawMessage `json:"updated_args"`
}

// decide asks the daemon, making the session when it is new.
func (h hook) decide(ctx context.Context, i hookInput, c hookCall) (decideAnswer, error) {
	session := hookSession(h.agent, i.Session)
	home, _ := os.UserHomeDir() // "" is an unknown home; ~ is then unknown too
	args, err := json.Marshal(c.args)
	if err != nil {
		return decideAnswer{}, err
	}
	body := map[string]any{
		"session_id": session, "tool": c.tool, "args": json.RawMessage(args), "cwd": c.dir, "home": home,
		"wait": h.wait, "hold": h.holds(c),
	}
	var d decideAnswer
	err = h.inSession(ctx, i, func() error { return h.api.Do(ctx, http.MethodPost, "/decide", body, &d) })
	return d, err
}

// inSession asks the daemon something, and once more when the session had to be
// made for it.
func (h hook) inSession(ctx context.Context, i hookInput, ask func() error) error {
	err := ask()
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "session_not_found" {
		return err
	}
	err = h.api.Do(ctx, http.MethodPost, "/sessions", map[string]any{"id": hookSession(h.agent, i.Session), "cwd": i.Dir, "title": h.agent}, nil)
	if e, ok := errors.AsType[*tool.Error](err); err != nil && (!ok || e.Code != "session_exists") {
		return fmt.Errorf("make a session: %w", err)
	}
	return ask()
}

// hookSession names our session for a session of the agent. Their id may hold
// anything, so it is hashed.
func hookSession(agent, id string) string {
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
		canonical, err := tool.Canonical(raw)
		if err != nil {
			return false
		}
		texts[i] = string(canonical)
	}
	return texts[0] == texts[1]
}

func firstReason(d tool.Decision) string {
	if len(d.Reasons) == 0 {
		return "the rules of sandboxd: " + d.Verdict.String()
	}
	r := d.Reasons[0]
	text := r.Message + " (" + r.Rule + ")"
	if r.Hint != "" {
		text += "; " + r.Hint
	}
	return text
}
