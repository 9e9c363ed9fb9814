package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sandboxd/sandboxd/api"
	"github.com/sandboxd/sandboxd/audit"
	"github.com/sandboxd/sandboxd/tool"
)

// serveCmd runs the daemon.
func serveCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Serves the working directory, or what the configuration says, on two sockets:
agents call tools on one, operators answer and configure on the other.

It runs until it gets TERM or INT. Then it takes no more calls, refuses the
questions that wait, gives running calls api.stopGrace to finish, and ends the
rest with all they started; a second signal ends it at once. HUP reads the
configuration again; a bad one leaves the old one in force.

systemd: Type=notify-reload with a watchdog, and both sockets by activation, as
in deploy/sandboxd.service and deploy/sandboxd.socket.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), flagsOf(cmd), cmd.ErrOrStderr())
		},
	}
	overrideFlags(c)
	return c
}

func serve(ctx context.Context, flags map[string]string, out io.Writer) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // until it is ready: nearly all that is made stays, or goes at once
	h, err := loadHouse(flags)
	if err != nil {
		return err
	}
	if err := h.makeState(); err != nil {
		return err
	}
	lock, err := audit.LockState(h.paths.StateDir)
	if err != nil {
		return err
	}
	defer lock.Release()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d, err := openDaemon(ctx, h, stop)
	if err != nil {
		return err
	}
	defer d.close()
	agents, operators, err := listen(h)
	if err != nil {
		return err
	}
	if err := d.record.Append(ctx, audit.Event{Name: "start", Message: "sandboxd " + version + ", role split " + h.roleSplit()}); err != nil {
		return errors.Join(err, agents.Close(), operators.Close())
	}
	notify := newNotifier(os.Getenv)
	greet(out, h, d.parts)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.front.Serve(ctx, agents, tool.RoleAgent) })
	g.Go(func() error { return d.front.Serve(ctx, operators, tool.RoleOperator) })
	g.Go(func() error { return watchQuestions(ctx, d.queue, d.metrics, d.events) })
	g.Go(func() error { return d.announce(ctx) })
	if h.cfg.Metrics.Listen != "" {
		g.Go(func() error { return serveMetrics(ctx, h.cfg.Metrics.Listen, d.metrics.Handler()) })
	}
	g.Go(func() error { return reloadOnHangup(ctx, d, notify) })
	g.Go(func() error { return notify.watchdog(ctx, h.paths.OperatorSocket) })
	g.Go(func() error {
		<-ctx.Done()
		notify.send("STOPPING=1")
		return d.queue.Close("the daemon stops")
	})
	notify.send("READY=1")
	debug.SetGCPercent(gcPercent())
	go debug.FreeOSMemory()
	err = g.Wait()
	d.parts.log.Info("stopped")
	return err
}

// gcPercent is GOGC, or 300: the daemon keeps about 10 MiB, and at Go's 100 it would
// collect every hundred calls, which shows in one call of a hundred.
func gcPercent() int {
	n, err := strconv.Atoi(os.Getenv("GOGC"))
	switch {
	case os.Getenv("GOGC") == "off":
		return -1
	case err != nil:
		return 300
	}
	return n
}

// reloadOnHangup reads the configuration again on HUP. A failure is told by
// Reload and is no reason to stop.
func reloadOnHangup(ctx context.Context, d *daemon, notify *notifier) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangup:
			notify.reloading()
			_ = d.Reload(ctx, "SIGHUP")
			notify.send("READY=1")
		}
	}
}

// listen takes the sockets that systemd opened, or opens its own.
func listen(h *house) (agents, operators net.Listener, err error) {
	given, err := api.Inherited(os.Getenv, os.Unsetenv)
	if err != nil {
		return nil, nil, err
	}
	open := func(name, path string) (net.Listener, error) {
		if l := given[name]; l != nil {
			return l, nil
		}
		return api.Listen(path)
	}
	if agents, err = open("agent", h.paths.AgentSocket); err != nil {
		return nil, nil, err
	}
	if operators, err = open("operator", h.paths.OperatorSocket); err != nil {
		return nil, nil, errors.Join(err, agents.Close())
	}
	return agents, operators, nil
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
