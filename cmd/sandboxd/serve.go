package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sandboxd/sandboxd/api"
	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/audit"
	"github.com/sandboxd/sandboxd/metrics"
	"github.com/sandboxd/sandboxd/store"
	"github.com/sandboxd/sandboxd/tool"
)

// serveCmd runs the daemon.
func serveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Serves the working directory, or what the configuration says, on two sockets:
agents call tools on one, operators answer and configure on the other. It runs
until it gets TERM or INT; running calls are ended then, with all they started.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := loadHouse()
			if err != nil {
				return err
			}
			return serve(cmd.Context(), h, cmd.ErrOrStderr())
		},
	}
}

func serve(ctx context.Context, h *house, out io.Writer) error {
	if err := h.makeState(); err != nil {
		return err
	}
	lock, err := audit.LockState(h.paths.StateDir)
	if err != nil {
		return err
	}
	defer lock.Release()
	db, err := store.Open(ctx, store.Options{Path: h.paths.Database, Sync: h.cfg.Store.Sync}, schemas()...)
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := h.build(ctx, db, filepath.Join(h.paths.StateDir, "cage"))
	if err != nil {
		return err
	}
	defer p.backend.Close()
	if err := p.vars.DropPending(ctx); err != nil {
		return err
	}
	record, err := audit.Open(ctx, p.auditOptions(), audit.NewMirror(db))
	if err != nil {
		return err
	}
	defer record.Close()
	queue, err := approvals.New(ctx, db, approvals.Options{
		Approver: h.cfg.Approvals.Approver, Timeout: h.approvalTimeout(), MaxPerSession: h.cfg.Approvals.MaxPerSession,
		Record: func(ctx context.Context, e approvals.Event) error { return record.Append(ctx, questionEvent(e)) },
	})
	if err != nil {
		return err
	}
	p.tools.Register(tool.Group{Name: "people", Tools: approvals.Tools(queue)})
	set := metrics.New(version)
	p.meter = set
	p.describe(set)
	events := new(api.Events)
	line := p.pipeline(queue, told{record, events})
	split := h.roleSplit()
	set.RoleSplit(split == "enforced")
	server := api.New(api.Options{
		Pipeline: line, Sessions: p.sessions, Tools: p.tools, Vars: p.vars, Approvals: queue, Policy: p.policy,
		Hooks: p.hooks, Record: record, Events: events, Backend: p.backend, Metrics: set.Handler(), Settings: h.settings,
		Roots: h.roots, Mode: h.cfg.Sessions.Mode, MaxMode: h.cfg.Sessions.MaxMode, Profile: h.cfg.Profile,
		Accounts: h.cfg.Accounts, Operators: h.cfg.Operators.UIDs, AuditPath: p.auditOptions().Path(),
		Version: version, RoleSplit: split, Log: h.log,
	})
	agents, err := api.Listen(h.paths.AgentSocket)
	if err != nil {
		return err
	}
	operators, err := api.Listen(h.paths.OperatorSocket)
	if err != nil {
		agents.Close()
		return err
	}
	if err := record.Append(ctx, audit.Event{Name: "start", Message: "sandboxd " + version + ", role split " + split}); err != nil {
		return err
	}
	greet(out, h, p)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Serve(ctx, agents, tool.RoleAgent) })
	g.Go(func() error { return server.Serve(ctx, operators, tool.RoleOperator) })
	g.Go(func() error { return watchQuestions(ctx, queue, set, events) })
	g.Go(func() error {
		p.policy.Watch(ctx, func(err error) { set.Reloaded(err) })
		return nil
	})
	if h.cfg.Metrics.Listen != "" {
		g.Go(func() error { return serveMetrics(ctx, h.cfg.Metrics.Listen, set.Handler()) })
	}
	g.Go(func() error {
		<-ctx.Done()
		return queue.Close("the daemon stops")
	})
	err = g.Wait()
	h.log.Info("stopped")
	return err
}

// questionEvent is what the record says of a question or its answer.
func questionEvent(e approvals.Event) audit.Event {
	return audit.Event{
		Name: string(e.Kind), Account: e.Item.Account, Session: e.Item.SessionID, Call: e.Item.CallID, Tool: e.Item.Tool,
		Digest: e.Item.Digest, Message: e.Item.Reason,
		Detail: map[string]string{"approval": e.Item.ID, "status": string(e.Item.Status), "by": e.By, "grant": e.Grant, "remember": e.Item.Remembered},
	}
}

// serveMetrics opens /metrics and /healthz, and nothing else, over TCP.
func serveMetrics(ctx context.Context, addr string, metrics http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	srv := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.ListenAndServe(); err != http.ErrServerClosed {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// greet says where the daemon is and what to try first.
func greet(out io.Writer, h *house, p *parts) {
	rep := p.backend.Probe()
	fmt.Fprintf(out, "sandboxd %s serves %s\n", version, h.roots)
	fmt.Fprintf(out, "  agent socket     %s\n  operator socket  %s\n  sandbox          %v\n", h.paths.AgentSocket, h.paths.OperatorSocket, rep.Layers)
	if len(rep.Missing) > 0 {
		fmt.Fprintf(out, "  missing here     %v\n", rep.Missing)
	}
	if h.roleSplit() == "advisory" {
		fmt.Fprintln(out, "  role_split: advisory: agent and daemon share a uid; see README")
	}
	exe, _ := os.Executable() // only for the text below
	name := "sandboxd"
	if filepath.Base(filepath.Dir(exe)) == "bin" {
		name = exe
	}
	fmt.Fprintf(out, "try, in another terminal:\n  cd %s && %s call Bash '{\"command\": \"ls | head -3\"}'\n", h.roots[0], name)
}

func newLog(level string, out io.Writer) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log.level %q: want debug, info, warn or error", level)
	}
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: l})), nil
}
