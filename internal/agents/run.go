package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/worktree"
	"github.com/sandboxd/sandboxd/sandbox"
)

// run is one run of one agent.
type run struct {
	f      *feature
	config *Config
	in     tool.In
	box    sandbox.Box
	args   args

	parent, session tool.Session
	kind            Type
	tree            *worktree.Tree // nil if the agent has no worktree
}

// prepare makes the session of the agent, or finds the session to continue. If it fails, it removes what it made.
func (r *run) prepare(ctx context.Context) (err error) {
	if r.parent, err = r.f.host.Sessions.Session(ctx, r.in.Account, r.in.Session); err != nil {
		return err
	}
	if r.args.Team != nil {
		if err := r.f.host.Teams.Join(ctx, r.parent, *r.args.Team, ""); err != nil {
			return err
		}
	}
	if r.args.Resume != nil {
		return r.resume(ctx, *r.args.Resume)
	}
	name, kind, ok := r.config.find(r.args.Type)
	if !ok {
		return bad(fmt.Sprintf("there is no type of agents %.80q", r.args.Type),
			"types are: "+strings.Join(r.config.names(), ", "))
	}
	r.kind = kind
	r.session = tool.Session{
		Account: r.parent.Account, Parent: r.parent.ID, Dir: r.parent.Dir, Begun: r.parent.Begun, Tree: r.parent.Tree,
		Home: r.parent.Home, Mode: r.parent.Mode, Profile: r.parent.Profile,
		Only: kind.Tools, Without: kind.DisallowedTools, Type: name, Title: clip(r.args.Description, 200),
	}
	if err := r.mode(); err != nil {
		return err
	}
	if err := r.named(); err != nil { // before anything is made
		return err
	}
	if i := r.args.Isolation; i != nil {
		if *i != "worktree" {
			return bad(fmt.Sprintf("unknown isolation %.80q", *i), "isolation is worktree, or left out")
		}
		if r.tree, err = r.newWorktree(ctx, cmp.Or(deref(r.args.Name), name)); err != nil {
			return err
		}
		r.session.Dir = r.tree.Dir
		r.session.Begun, r.session.Tree = r.tree.For(r.in.Dir, r.parent.Tree, r.parent.Begun), ""
	}
	if r.session, err = r.create(ctx, name); err != nil && r.tree != nil {
		err = errors.Join(err, r.git().Remove(context.WithoutCancel(ctx), *r.tree, true))
	}
	return err
}

func (r *run) mode() error {
	if r.args.Mode == nil {
		return nil
	}
	mode := tool.Mode(*r.args.Mode)
	if !mode.Valid() {
		return bad(fmt.Sprintf("unknown mode %.40q", mode), fmt.Sprintf("modes are: %v", tool.Modes))
	}
	if mode.LooserThan(r.parent.Mode) {
		return &tool.Error{
			Code: "mode_not_allowed",
			Msg:  fmt.Sprintf("mode %s is looser than %s, the mode of this session", mode, r.parent.Mode),
			Hint: "leave mode out: the agent has the mode of this session then",
		}
	}
	r.session.Mode = mode
	return nil
}

// named checks the name that the call asks for.
func (r *run) named() error {
	switch {
	case r.args.Name == nil:
		return nil
	case *r.args.Name == "":
		return bad("name is empty: leave it out, or give a name", "")
	}
	return tool.CheckAgent(*r.args.Name)
}

// create makes the session, with the name that the call asks for, or with the next free name of its type.
func (r *run) create(ctx context.Context, kind string) (tool.Session, error) {
	want := r.session
	if r.args.Name != nil {
		want.Agent = *r.args.Name
		return r.f.host.NewSession(ctx, want)
	}
	for i := 1; ; i++ {
		want.Agent = fmt.Sprintf("%s-%d", kind, i)
		made, err := r.f.host.NewSession(ctx, want)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "agent_exists" {
			return made, err
		}
	}
}

// resume finds the session of an agent that the calling session started before.
func (r *run) resume(ctx context.Context, id string) error {
	s, err := r.f.host.Sessions.Session(ctx, r.in.Account, id)
	if e := tool.ErrorOf(err); err != nil && (e == nil || e.Code != "session_not_found") {
		return err
	}
	if err != nil || s.Parent != r.parent.ID {
		return &tool.Error{
			Code: "agent_not_found", Msg: fmt.Sprintf("there is no agent %.100q of this session", id),
			Hint: "resume is the session_id of an earlier answer of Agent",
		}
	}
	r.session = s
	_, r.kind, _ = r.config.find(s.Type)
	return nil
}

// order is what the program reads on its standard input; docs/agents.md describes it.
type order struct {
	Session         string   `json:"session_id"`
	Socket          string   `json:"socket"`
	Agent           string   `json:"agent"`
	AgentType       string   `json:"agent_type"`
	Parent          string   `json:"parent_session_id"`
	Prompt          string   `json:"prompt"`
	Description     string   `json:"description"`
	SystemPrompt    *string  `json:"system_prompt"`
	Model           *string  `json:"model"`
	MaxTurns        int      `json:"max_turns"`
	AllowedTools    []string `json:"allowed_tools"`
	DisallowedTools []string `json:"disallowed_tools"`
	MCPServers      []string `json:"mcp_servers"` // always empty: no call can name them
	Skills          []string `json:"skills"`      // likewise
	Background      *bool    `json:"run_in_background"`
	Isolation       *string  `json:"isolation"`
	Team            *string  `json:"team_name"`
	Mode            *string  `json:"mode"`
	Resume          *string  `json:"resume"`
	Dir             string   `json:"cwd"`
}

func (r *run) order() order {
	a, s := r.args, r.session
	o := order{
		Session: s.ID, Socket: r.f.host.Socket, Agent: s.Agent, AgentType: cmp.Or(s.Type, general),
		Parent: r.parent.ID, Prompt: a.Prompt, Description: a.Description,
		MaxTurns:     cmp.Or(deref(a.MaxTurns), r.kind.MaxTurns, maxTurns),
		AllowedTools: s.Only, DisallowedTools: s.Without, Background: a.Background, Isolation: a.Isolation,
		Team: a.Team, Mode: a.Mode, Resume: a.Resume, Dir: s.Dir,
	}
	if r.kind.SystemPrompt != "" {
		o.SystemPrompt = &r.kind.SystemPrompt
	}
	if model := cmp.Or(deref(a.Model), r.kind.Model, r.f.host.Model(r.parent.ID)); model != "" {
		o.Model = &model
	}
	return o
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// answer is what the program writes on its standard output.
type answer struct {
	Text    *string  `json:"text"`
	Calls   []string `json:"tool_calls"`
	IsError bool     `json:"is_error"`
}

// data is what the client of the call gets.
type data struct {
	Session  string   `json:"session_id"`
	Agent    string   `json:"agent"`
	Text     string   `json:"text"`
	Calls    []string `json:"tool_calls"`
	IsError  bool     `json:"is_error"`
	Job      string   `json:"job_id,omitempty"`
	Worktree *kept    `json:"worktree,omitempty"`
}

// work runs the agent until it ends.
func (r *run) work(ctx context.Context) (tool.Output, error) {
	said, err := r.supervise(ctx)
	d := data{
		Session: r.session.ID, Agent: r.session.Agent, Calls: append([]string{}, said.Calls...), IsError: said.IsError,
	}
	d.Text = cmp.Or(deref(said.Text), "(Subagent completed with no text output)")
	text := d.Text
	if r.tree != nil {
		left, cannot := r.settle(context.WithoutCancel(ctx))
		if cannot != nil {
			r.f.host.Log.Warn("the worktree of an agent stays, or its branch", "path", r.tree.Path, "error", cannot)
		}
		if d.Worktree = left; left != nil {
			text += left.String()
		}
	}
	if err != nil {
		return tool.Output{}, withLeft(err, d)
	}
	by, err := r.f.host.Heard(context.WithoutCancel(ctx), r.session.ID)
	if err != nil {
		return tool.Output{}, err
	}
	if j := r.in.Job; j != nil {
		d.Job = j.ID()
	}
	out := tool.Output{Data: d, Origin: provenance.Of(append(by, tool.OriginModel)...).Worst()}
	if len(d.Calls) > 0 {
		text += "\n[Tools used: " + strings.Join(unique(d.Calls), ", ") + "]"
	}
	if said.IsError {
		return out, &tool.Error{
			Code: "agent_failed", Msg: text, Details: d,
			Hint: "call Agent with resume " + d.Session + " to let it go on",
		}
	}
	if j := r.in.Job; j != nil {
		j.Author(out.Origin)
		fmt.Fprint(j.Output(), text)
		j.Ended(sandbox.Exit{})
	}
	out.Text = text
	return out, nil
}

// withLeft adds to an error what it leaves: the session, for resume, and the worktree.
func withLeft(err error, d data) error {
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Details != nil {
		return err
	}
	d.Text, d.IsError = "", true // the agent has said nothing
	with := *e
	with.Details = d
	if d.Worktree != nil {
		with.Msg += d.Worktree.String()
	}
	return &with
}

func unique(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// supervise reports begin and end to hooks and watchers, runs the program, and reads its answer.
func (r *run) supervise(ctx context.Context) (said answer, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leave, err := r.f.enter(r.session.ID, cancel)
	if err != nil {
		return answer{}, err
	}
	defer leave()
	if r.args.Team != nil {
		if err := r.f.host.Teams.Join(ctx, r.parent, *r.args.Team, r.session.Agent); err != nil {
			return answer{}, err
		}
	}
	if err := r.fire(ctx, part.SubagentStart, ""); err != nil {
		return answer{}, err
	}
	r.publish(events.AgentStarted, "")
	defer func() { r.ended(err == nil && !said.IsError) }()
	stdin, err := json.Marshal(r.order())
	if err != nil {
		return answer{}, err
	}
	ctx, stop := tool.Timeout(ctx, r.config.Spawner.Timeout)
	defer stop()
	defer tool.YieldSlot(ctx)()
	stdout, stderr, err := r.f.host.RunAgent(ctx, tool.AgentProgram{
		Argv: r.config.Spawner.Command, PassEnv: r.config.Spawner.PassEnv, Stdin: stdin,
		Started: func() { r.started(cancel) },
		As:      tool.Actor{Identity: *r.in.By, Account: r.session.Account, Session: r.session.ID},
	})
	if stderr != "" {
		r.f.host.Log.Info("an agent's program said", "session", r.session.ID, "agent", r.session.Agent,
			"stderr", clip(stderr, 2000))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it did not answer within %v (agents.spawner.timeout)", r.config.Spawner.Timeout)
	}
	if err != nil {
		return answer{}, failed(err)
	}
	return read(stdout)
}

// started reports that the program runs, in a call that goes on as a job.
func (r *run) started(cancel context.CancelCauseFunc) {
	if j := r.in.Job; j != nil {
		j.Agent(r.session.Agent, r.session.ID)
		j.Started(proc{cancel})
	}
}

// proc lets others end the program of a job.
type proc struct{ cancel context.CancelCauseFunc }

func (proc) Wait() (sandbox.Exit, error) {
	return sandbox.Exit{}, errors.New("cannot happen: nobody waits")
}
func (proc) Apart() bool             { return false }
func (proc) Sweep() []sandbox.Denial { return nil }

func (proc) Dial(context.Context, uint16) (net.Conn, error) {
	return nil, errors.New("an agent serves no ports")
}

func (p proc) Terminate(grace time.Duration) {
	if grace == 0 {
		p.cancel(tool.ErrAtOnce)
		return
	}
	p.cancel(errors.New("somebody ended it"))
}

func failed(err error) error {
	return &tool.Error{
		Code: "spawner_failed", Msg: "the program that runs agents failed: " + clip(err.Error(), 300),
		Hint: "the log of the daemon has what it said",
	}
}

// read decodes the answer of the program: exactly one object, in which each field occurs once.
func read(stdout []byte) (answer, error) {
	var a answer
	err := strictjson.CheckFolded(stdout)
	if err == nil {
		err = strictjson.Decode(stdout, &a)
	}
	switch {
	case err != nil:
		return a, failed(fmt.Errorf("its answer is not one JSON object of its form: %w", err))
	case a.Text == nil:
		return a, failed(errors.New("its answer has no text"))
	}
	return a, nil
}

// ended reports to hooks and watchers how the agent ended.
func (r *run) ended(ok bool) {
	ctx := context.Background()
	_ = r.fire(ctx, part.SubagentStop, "") // the agent has ended, so a hook can block nothing
	status := "error"
	if ok {
		status = "success"
	}
	r.publish(events.AgentEnded, status)
	if !r.f.host.Hooked(part.TeammateIdle) {
		return
	}
	teams, err := r.f.host.Teams.Of(ctx, r.session)
	if err != nil {
		r.f.host.Log.Warn("cannot read the teams of an agent", "session", r.session.ID, "error", err)
	}
	for _, team := range teams {
		_ = r.fire(ctx, part.TeammateIdle, team)
	}
}

func (r *run) fire(ctx context.Context, e part.Event, team string) error {
	if !r.f.host.Hooked(e) {
		return nil
	}
	said, err := r.f.host.Fire(ctx, part.Happening{Event: e, Session: r.parent, Agent: r.session, Team: team})
	if err == nil && said.Block {
		err = &tool.Error{Code: "hook_blocked", Msg: cmp.Or(said.Reason, "the agent was blocked by a hook")}
	}
	if err != nil && e != part.SubagentStart {
		r.f.host.Log.Warn("hooks were not told of an agent", "event", string(e), "session", r.session.ID, "error", err)
	}
	return err
}

func (r *run) publish(what events.Type, status string) {
	r.f.host.Events.Publish(events.Event{
		Type: what, Account: r.session.Account, Session: r.session.ID, Agent: r.session.Agent, Call: r.in.CallID,
		Status: status,
	})
}

// clip cuts a text that others have written after most bytes, and adds an ellipsis.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
