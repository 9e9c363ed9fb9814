package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/internal/runner"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy/recent"
	"github.com/sandboxd/sandboxd/sandbox"
)

// StandaloneOptions are settings of one command that take precedence over the configuration.
type StandaloneOptions struct {
	Settings string // file of sandbox settings, merged over the configured ones
	Profile  sandbox.Profile
	Mode     tool.Mode
	Terminal bool // a person sits at the terminal
}

// Standalone runs one command with the tool x through the whole request path, in this process. People answer its
// questions. It writes to the record of the daemon.
func Standalone(ctx context.Context, version string, x tool.Tool, people pipeline.Approvals, argv []string,
	o StandaloneOptions,
) (tool.Result, error) {
	h, err := Load(version, nil)
	if err != nil {
		return tool.Result{}, err
	}
	if err := h.Here(); err != nil {
		return tool.Result{}, err
	}
	if err := h.applyExec(o); err != nil {
		return tool.Result{}, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return tool.Result{}, err
	}
	p, err := h.openAlone(ctx, people, dir, catalog.Group{Name: config.ExecGroup, Tools: []tool.Tool{x}})
	if err != nil {
		return tool.Result{}, err
	}
	defer p.close()
	args, err := json.Marshal(map[string]any{"argv": argv})
	if err != nil {
		return tool.Result{}, err
	}
	return p.line.Do(ctx, tool.Request{
		Account: p.session.Account, Role: tool.RoleAgent, User: sandbox.Daemon(), Session: p.session.ID,
		Tool: x.Spec().Name, Args: args,
	}), nil
}

// alone is the request path of one command, without a daemon.
type alone struct {
	*components
	db      *store.DB
	session tool.Session
	record  execRecord
	line    *pipeline.Pipeline
	kept    *execKept // nil while another process has the store
}

// execSession is the id of the session of every command without a daemon. It is always the same, so that the store
// of a directory finds what earlier commands changed.
const execSession = "exec"

// openAlone opens the request path for a session in a directory. The caller closes it.
func (s *Site) openAlone(ctx context.Context, people pipeline.Approvals, dir string, extra ...catalog.Group) (
	_ *alone, err error,
) {
	if err := s.makeState(); err != nil {
		return nil, err
	}
	a := &alone{}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.db, err = store.Open(ctx, store.Options{Path: ":memory:"}, schemas(nil)...); err != nil {
		return nil, err
	}
	backend, err := s.Backend("")
	if err != nil {
		return nil, err
	}
	if a.components, err = s.build(ctx, a.db, backend, recent.New(time.Now), nil, extra...); err != nil {
		return nil, err
	}
	a.joinAlone()
	if dir, err = guard.Resolve(dir, "/", a.home); err != nil {
		return nil, err
	}
	a.session, err = a.sessions.Create(ctx, tool.Session{
		ID: execSession, Account: tool.DefaultAccount, Dir: dir, Home: a.home,
		Mode: s.Config.Sessions.Mode, Profile: s.Config.Profile, Tag: "exec",
	})
	if err != nil {
		return nil, err
	}
	a.record = execRecord{
		audit.Shared{Options: a.auditOptions(), OpenMirror: s.openMirror}, client.New(s.Paths.AgentSocket),
	}
	if err := a.openKept(ctx); err != nil {
		return nil, err
	}
	o := a.stages(people, a.record)
	o.UndoBy = "sandboxd undo --exec"
	a.line = pipeline.New(o)
	return a, nil
}

func (a *alone) close() {
	if a.kept != nil {
		a.kept.close()
	}
	if a.components != nil {
		a.backend.Close()
	}
	if a.db != nil {
		a.db.Close() // it is in memory
	}
}

// execRecord writes to the record of the daemon: directly if no daemon has it locked, else through the daemon.
type execRecord struct {
	local audit.Shared
	api   *client.Client
}

func (e execRecord) Begin(ctx context.Context, c *tool.Call) error {
	return e.orDaemon(ctx, "begin", c, e.local.Begin(ctx, c))
}

func (e execRecord) End(ctx context.Context, c *tool.Call) error {
	return e.orDaemon(ctx, "end", c, e.local.End(ctx, c))
}

func (e execRecord) orDaemon(ctx context.Context, phase string, c *tool.Call, err error) error {
	var held *audit.Held
	if !errors.As(err, &held) {
		return err
	}
	detail := map[string]string{
		"verdict": c.Decision.Verdict.String(), "status": string(c.Result.Status), "dir": c.Session.Dir,
	}
	if x, ok := c.Output.Data.(interface{ Ended() (int, string) }); ok && phase == "end" {
		code, _ := x.Ended()
		detail["exit"] = strconv.Itoa(code)
		detail["wall_ms"] = strconv.FormatInt(time.Since(c.Started).Milliseconds(), 10)
	}
	if len(c.Decision.Reasons) > 0 {
		detail["rule"] = c.Decision.Reasons[0].Rule
	}
	in := map[string]any{"phase": phase, "call_id": c.ID, "tool": c.Spec.Name, "digest": c.Digest, "detail": detail}
	return e.api.Do(ctx, http.MethodPost, "/records", in, nil)
}

// applyExec puts the options of one command over the configuration.
func (s *Site) applyExec(o StandaloneOptions) error {
	if o.Profile != "" {
		s.Config.Profile = o.Profile
	}
	if o.Mode != "" {
		if !o.Mode.Valid() {
			return &tool.Error{Msg: "unknown mode " + string(o.Mode)}
		}
		s.Config.Sessions.Mode = o.Mode
	}
	runner.RaiseOutputLimit(&s.Settings)
	if o.Terminal {
		runner.RaiseWallLimit(&s.Settings)
	}
	if o.Settings == "" {
		return nil
	}
	doc, err := os.ReadFile(o.Settings)
	if err != nil {
		return err
	}
	if s.Settings, err = s.Settings.Merge(doc); err != nil {
		return err
	}
	merged, idle, err := s.Settings.Normalise()
	if err != nil {
		return err
	}
	s.Settings = merged
	for _, line := range idle {
		s.log.Warn(o.Settings + ": " + line)
	}
	return s.Settings.CheckCage()
}
