package daemon

import (
	"cmp"
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
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/internal/api"
	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/internal/idspace"
	"github.com/sandboxd/sandboxd/internal/tool"
	"golang.org/x/sync/errgroup"
)

// Serve runs the daemon of this version until ctx ends, and prints text for people to out. Flags, by key of the
// configuration, take precedence over the environment and the file.
func Serve(ctx context.Context, version string, flags map[string]string, out io.Writer) error {
	// Collect no garbage until the daemon is ready: nearly everything that start makes stays.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	inside, err := idspace.Enter()
	if err != nil {
		return err
	}
	h, err := Load(version, flags)
	if err != nil {
		return err
	}
	if h.inside = inside; inside == nil && idspace.Wanted() {
		return h.goInside()
	}
	if err := h.makeState(); err != nil {
		return err
	}
	lock, err := audit.LockState(ctx, h.Paths.StateDir)
	if err != nil {
		return inUse(err)
	}
	defer lock.Release()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d, err := openDaemon(ctx, h, stop)
	if err != nil {
		return tampered(err)
	}
	defer d.close()
	agents, operators, err := listen(h)
	if err != nil {
		return err
	}
	if err := d.record.Append(ctx,
		tool.Note{Name: "start", Message: "sandboxd " + h.version + ", role split " + h.RoleSplit()}); err != nil {
		return errors.Join(err, agents.Close(), operators.Close())
	}
	notify := newNotifier(os.Getenv)
	greet(out, h, d.current.Load())
	g, ctx := errgroup.WithContext(ctx)
	// Questions end before the calls that ask them, because a question whose caller has left goes on waiting.
	serving, endServing := context.WithCancelCause(context.WithoutCancel(ctx))
	g.Go(func() error { return d.front.Serve(serving, agents, tool.RoleAgent) })
	g.Go(func() error { return d.front.Serve(serving, operators, tool.RoleOperator) })
	g.Go(func() error { return watchQuestions(ctx, d.queue, d.metrics, d.events) })
	g.Go(func() error { return d.announce(ctx) })
	g.Go(func() error { return d.queue.Follow(ctx, d.behind) })
	g.Go(func() error { return d.sessions.Follow(ctx, d.behind) })
	serveParts(serving, g, d.features)
	g.Go(func() error { return d.deleteIdle(ctx) })
	if h.Config.Metrics.Listen != "" {
		g.Go(func() error { return serveMetrics(ctx, h.Config.Metrics.Listen, d.metrics.Handler()) })
	}
	g.Go(func() error { return reloadOnHangup(ctx, d, notify) })
	g.Go(func() error { return notify.watchdog(ctx, h.Paths.OperatorSocket) })
	g.Go(func() error {
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), errStartAgain) {
			notify.reloading() // for a service manager, a reload does not stop anything
		} else {
			notify.send("STOPPING=1")
		}
		err := d.queue.Close("the daemon stops")
		endServing(context.Cause(ctx))
		return err
	})
	notify.send("READY=1")
	if os.Getenv("GOMAXPROCS") == "" {
		// So that the kernel, which knows who has waited, chooses among them: else a request that comes waits until the
		// work of an account on each processor is interrupted.
		runtime.GOMAXPROCS(2 * d.processors)
	}
	debug.SetGCPercent(gcPercent())
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit(h.Config.Limits.AgentBytes))
	}
	go debug.FreeOSMemory()
	if err = g.Wait(); err == nil && errors.Is(context.Cause(ctx), errStartAgain) {
		return idspace.Again
	}
	d.current.Load().log.Info("stopped")
	return err
}

// serveParts serves the features. Who waits for the group waits for the end of each, and gets the first error.
func serveParts(ctx context.Context, g *errgroup.Group, all []feature) {
	for _, f := range all {
		if f.Serve != nil {
			g.Go(func() error { return f.Serve(ctx) })
		}
	}
}

// inUse adds a hint to the error that another daemon runs already.
func inUse(err error) error {
	held, ok := errors.AsType[*audit.Held](err)
	if !ok {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "DIR"
	}
	return &tool.Error{
		Code: "state_in_use", Msg: "a daemon runs already: " + held.Error(),
		Hint: "it serves every directory that you allow: " + tool.CommandLine("sandboxd", "allow", dir) +
			"; a second daemon needs a SANDBOXD_STATE_DIR and a SANDBOXD_RUNTIME_DIR of its own",
	}
}

// memoryLimit returns the size of the heap above which the garbage collector runs more often. It is the sum of three
// parts: 32 MiB for the daemon itself, agentBytes for agents, and a quarter of agentBytes for memory that is not
// used any more. A heap that grows fast exceeds it by a fifth. The documents promise more: the database and the
// program itself take memory too.
func memoryLimit(agentBytes int64) int64 { return 32<<20 + agentBytes + agentBytes/4 }

// gcPercent returns GOGC, or 300. The daemon keeps about 10 MiB. At 100, the default of Go, it would collect every
// hundred calls, and one call in a hundred would show it.
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

// reloadOnHangup reads the configuration again at each SIGHUP. Reload reports a failure, and the daemon goes on with
// the old configuration.
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
			_ = d.Reload(ctx, "SIGHUP", false)
			notify.send("READY=1")
		}
	}
}

// listen takes the sockets that systemd opened, or opens its own.
func listen(h *Site) (agents, operators net.Listener, err error) {
	given, err := api.Inherited(os.Getenv, os.Unsetenv)
	if err != nil {
		return nil, nil, err
	}
	open := func(name, path string, group config.SocketGroup) (net.Listener, error) {
		if l := given[name]; l != nil {
			return l, api.OfGroup(l, api.Access(group))
		}
		return api.Listen(path, api.Access(group))
	}
	if agents, err = open("agent", h.Paths.AgentSocket, h.Config.API.AgentGroup()); err != nil {
		return nil, nil, err
	}
	if operators, err = open("operator", h.Paths.OperatorSocket, h.Config.API.OperatorsGroup()); err != nil {
		return nil, nil, errors.Join(err, agents.Close())
	}
	return agents, operators, nil
}

// serveMetrics opens /metrics and /healthz, and nothing else, over TCP.
func serveMetrics(ctx context.Context, addr string, metrics http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	srv := &http.Server{
		Addr: addr, Handler: mux, ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.ListenAndServe(); err != http.ErrServerClosed {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// greet prints the sockets of the daemon and a first command to try.
func greet(out io.Writer, h *Site, p *components) {
	rep := p.backend.Probe()
	serves := p.dirs()
	fmt.Fprintf(out, "sandboxd %s serves %s\n", h.version, cmp.Or(strings.Join(serves, ", "), "no directory yet"))
	fmt.Fprintf(out, "  agent socket     %s\n  operator socket  %s\n  sandbox          %s\n", h.Paths.AgentSocket,
		h.Paths.OperatorSocket, strings.Join(rep.Layers, " "))
	for _, missing := range rep.Missing {
		fmt.Fprintf(out, "  missing here     %s\n", missing)
	}
	if h.RoleSplit() == "advisory" {
		fmt.Fprintln(out, "  role_split: advisory: agent and daemon share a uid; see README")
	}
	exe, _ := os.Executable() // used only in the text below
	name := "sandboxd"
	if filepath.Base(filepath.Dir(exe)) == "bin" {
		name = exe
	}
	if len(serves) == 0 {
		fmt.Fprintf(out, "nothing is allowed yet; try, in another terminal, in a project of yours:\n  %s allow\n", name)
	} else {
		fmt.Fprintf(out, "try, in another terminal:\n  %s\n", tool.CommandLine("cd", serves[0]))
	}
	fmt.Fprintf(out, "  %s call Bash '{\"command\": \"ls | head -3\"}'\n", name)
}

func newLog(level string, out io.Writer) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log.level %q: want debug, info, warn or error", level)
	}
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: l})), nil
}
