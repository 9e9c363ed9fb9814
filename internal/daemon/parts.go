package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/agents"
	"github.com/sandboxd/sandboxd/internal/api"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/internal/cron"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/jobs"
	"github.com/sandboxd/sandboxd/internal/lsp"
	"github.com/sandboxd/sandboxd/internal/mcp/gateway"
	"github.com/sandboxd/sandboxd/internal/mcp/serve"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/projects"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/scopes"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/skills"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/team"
	"github.com/sandboxd/sandboxd/internal/textcall"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transcript"
	"github.com/sandboxd/sandboxd/internal/undo"
	"github.com/sandboxd/sandboxd/internal/vars"
	"github.com/sandboxd/sandboxd/internal/web"
	"github.com/sandboxd/sandboxd/internal/worktree/entered"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
)

// features lists the stateful features beside the stages of the request path. To add a feature, add one element
// here; no other code of this package names it. A feature may use what earlier ones bring ([part.Host] TaskJobs and
// Teams), so it stands behind them.
func features() []part.Definition {
	return []part.Definition{
		undo.Definition(), jobs.Definition(), skills.Definition(), scopes.Definition(), textcall.Definition(),
		team.Definition(), agents.Definition(), entered.Definition(), cron.Definition(), lsp.Definition(),
		gateway.Definition(), web.Definition(),
	}
}

// feature is a feature that the daemon has opened.
type feature struct {
	part.Definition
	part.Part
}

// schemas returns the tables of the stages and of the features.
func schemas(features []part.Definition) []store.Schema {
	all := []store.Schema{
		sessions.Schema(), vars.Schema(), approvals.Schema(), audit.Schema(), policy.Schema(), hooks.Schema(),
		transcript.Schema(),
	}
	for _, f := range features {
		if f.Schema.Files != nil {
			all = append(all, f.Schema)
		}
	}
	return all
}

// host returns what a part may use of the components in force. [daemon.openFeatures] adds what is different for each
// part.
func (d *daemon) host(c *components) part.Host {
	return part.Host{
		DB: d.db, Local: d.db, Sessions: c.sessions, Used: c.sessions.Used, Record: d.record.Append, Events: d.events,
		Free: d.disk.Free,
		Do:   func(ctx context.Context, r tool.Request) tool.Result { return d.line.Load().Do(ctx, r) },
		Admit: func(ctx context.Context, account string) (context.Context, func(), error) {
			return d.front.Admit(ctx, account)
		},
		Tools: func(s tool.Session) []tool.Tool { return d.line.Load().Tools.Enabled(s) },
		Busy:  d.busy, TaskJobs: c.taskJobs, Hooked: d.hooked, Fire: d.fire,
		RunAgent: func(ctx context.Context, a tool.AgentProgram) ([]byte, string, error) {
			return d.hooksInForce().RunAgent(ctx, a)
		},
		Teams: c.teams, Socket: c.Paths.AgentSocket,
		NewSession: func(ctx context.Context, s tool.Session) (tool.Session, error) {
			made, err := c.sessions.Create(ctx, s)
			if err == nil {
				d.events.Publish(events.Event{Type: events.SessionCreated, Account: made.Account, Session: made.ID})
			}
			return made, err
		},
		Heard: func(ctx context.Context, session string) ([]tool.Origin, error) {
			shown, err := c.vars.Released(ctx, session)
			return shown.Session, err
		},
		Model: func(session string) string {
			said, _, _ := c.sessions.Transcript(session) // a damaged transcript names none
			return said.Model
		},

		Companions: pipeline.Companions{Line: d.line.Load},

		Account: func(uid int) (string, bool) { return d.accounts.Load().Of(uid, os.Geteuid()) },
		Roots:   func() []string { return d.line.Load().Workspaces.Dirs() },
		Known:   func(name string) bool { return d.line.Load().Tools.Known(name) },
		Redact:  c.redactor.String, Pieces: c.redactor.Pieces, Log: c.log,
		Operators: func(by route.Caller) http.Handler { return d.front.As(by) },
		ServeAgents: func(ctx context.Context, l net.Listener, who route.LetIn) error {
			return d.front.ServeAgents(ctx, l, who)
		},
	}
}

// busy returns the sessions of an account in which a call runs.
func (d *daemon) busy(account string) map[string]bool {
	runs := map[string]bool{}
	for _, c := range d.line.Load().Calls(account) {
		runs[c.SessionID] = true
	}
	return runs
}

// hooked reports whether hooks exist for an event that a part reports.
func (d *daemon) hooked(e part.Event) bool {
	return d.line.Load().Hooks.(hookStage).Has(hooks.Event(e))
}

// fire runs the hooks of an event that a part reports.
func (d *daemon) fire(ctx context.Context, h part.Happening) (tool.Advice, error) {
	answer, err := d.line.Load().Hooks.(hookStage).Fire(ctx, hooks.Event(h.Event), hooks.Input{
		SessionID: h.Session.ID, Cwd: h.Session.Dir, PermissionMode: string(h.Session.Mode),
		TaskID: h.Task, TaskSubject: h.Subject, AgentID: h.Agent.ID, AgentType: h.Agent.Type,
		TeammateName: h.Agent.Agent, TeamName: h.Team, WorktreePath: h.Path,
	})
	return answer.Advice, err
}

// openFeatures opens the features in the order of their list.
func (d *daemon) openFeatures(ctx context.Context, c *components) error {
	for _, f := range c.features {
		h := d.host(c)
		if f.Schema.Postgres != nil {
			h.DB = d.state
		}
		h.Config, h.Dir = c.Config.Parts[f.Name], filepath.Join(c.Paths.StateDir, f.Name)
		opened, err := f.Open(ctx, h)
		if err != nil {
			return fmt.Errorf("open %s: %w", f.Name, err)
		}
		opened.Own = opened.Own || f.Schema.Postgres == nil
		d.features = append(d.features, feature{f, opened})
		if opened.Journal != nil {
			c.journal = opened.Journal
		}
		if opened.Jobs != nil {
			c.jobs = opened.Jobs
		}
		if opened.TaskJobs != nil {
			c.taskJobs = opened.TaskJobs
		}
		if opened.Teams != nil {
			c.teams = opened.Teams
		}
		for _, g := range opened.Metrics {
			d.metrics.Gauge(g.Name, g.Help, g.Value)
		}
	}
	return nil
}

// closeFeatures closes the features in the opposite order.
func (d *daemon) closeFeatures() {
	for _, f := range slices.Backward(d.features) {
		if f.Close == nil {
			continue
		}
		if err := f.Close(); err != nil {
			d.current.Load().log.Error("a part did not close", "part", f.Name, "error", err)
		}
	}
}

// parts returns the stages and the features, in the order in which they act when a session is deleted. Hooks are
// last: they run when nothing of the session is left.
func (d *daemon) parts(c *components) []part.Part {
	host := d.host(c)
	all := []part.Part{
		c.vars.Part(host), c.sessionTools(), d.queue.Part(host), c.policy.Part(host, c.decisions, c.shadow.judge),
		d.record.Part(), d.projectPart(c),
		{Routes: d.mcp.Routes()},
	}
	for _, f := range d.features {
		all = append(all, f.Part) // they forget a session before its cage is removed
	}
	all = append(all, part.Part{Own: true, Forget: func(_ context.Context, s tool.Session) error {
		d.events.Publish(events.Event{Type: events.SessionDeleted, Account: s.Account, Session: s.ID})
		err := c.backend.Forget(s.ID)
		d.disk.Forget(s.ID)
		return err
	}})
	return append(all, c.hooks.Part(host))
}

// partStatus returns the status of the record, the projects, the disk, the database and each feature, by name.
func (d *daemon) partStatus() map[string]any {
	said := map[string]any{
		"audit": d.record.Part().Status(), "projects": d.current.Load().projects.All(), "disk": d.disk.Use(),
	}
	if s := d.storeStatus(); s != nil {
		said["store"] = s
	}
	for _, f := range d.features {
		if f.Status != nil {
			said[f.Name] = f.Status()
		}
	}
	return said
}

// ended tells the sessions and the features that a call has ended.
func (d *daemon) ended(c *tool.Call) {
	d.sessions.Used(c.Session.ID)
	for _, f := range d.features {
		if f.Ended != nil {
			f.Ended(c)
		}
	}
}

// reloadFeatures gives each feature its section of the new configuration.
func (d *daemon) reloadFeatures(ctx context.Context, next *components) {
	for _, f := range d.features {
		if f.Reload != nil {
			f.Reload(ctx, next.Config.Parts[f.Name])
		}
	}
}

// needsRestart names the section of next that differs and that its part cannot reload.
func (d *daemon) needsRestart(next *Site) string {
	if key := d.current.Load().Config.NeedsRestart(next.Config); key != "" {
		return key
	}
	for _, f := range d.features {
		if f.Reload == nil && !reflect.DeepEqual(d.current.Load().Config.Parts[f.Name], next.Config.Parts[f.Name]) {
			return f.Name
		}
	}
	return ""
}

// described returns the features as parts without state, for their routes and specifications.
func described(features []part.Definition) []part.Part {
	none := part.Host{}
	all := []part.Part{
		(*vars.System)(nil).Part(none), (*approvals.Queue)(nil).Part(none), (*policy.Engine)(nil).Part(none, nil, nil),
		(*audit.Log)(nil).Part(), (*projects.List)(nil).Part(nil), (*hooks.Registry)(nil).Part(none),
		{Routes: (*serve.HTTP)(nil).Routes()},
	}
	for _, f := range features {
		all = append(all, f.Described(nil))
	}
	return all
}

// OpenAPI returns the OpenAPI document of a daemon, committed as docs/openapi.json.
func OpenAPI() ([]byte, error) { return openAPI(features()) }

func openAPI(features []part.Definition) ([]byte, error) { return api.OpenAPI(described(features)...) }

// Deferred returns the tools of a daemon that are deferred by default.
func Deferred() []string { return config.Deferred(features()...) }

// BuiltIn returns the groups of tools of a daemon, for documents. Their tools cannot run.
func BuiltIn() []catalog.Group { return config.BuiltIn(features()...) }
