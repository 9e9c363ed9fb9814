package api_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/hooks"
	"github.com/sandboxd/sandboxd/internal/api"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/projects"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// An agent makes a session; other routes need the stages that they serve.
func Example() {
	dir, err := os.MkdirTemp("", "api")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, sessions.Schema())
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	none, err := hooks.New(hooks.Options{})
	if err != nil {
		log.Fatal(err)
	}

	s := api.New(api.Options{
		Sessions: sessions.New(db, sessions.Options{}), Hooks: none, Events: &events.Broker{},
		Callers: api.Callers{Account: func(int) (string, bool) { return "team", true }},
		Defaults: api.Defaults{
			Workspaces: projects.Fixed(tool.Workspace{Roots: []string{dir}}), Mode: tool.ModeDefault, MaxMode: tool.ModeDefault, Profile: sandbox.ProfileStrict,
		},
		Metrics: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler),
	})
	path := filepath.Join(dir, "run", "agent.sock")
	l, err := api.Listen(path, api.Access{})
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- api.NewFront(s).Serve(ctx, l, tool.RoleAgent) }()

	session, err := client.New(path).SessionFor(ctx, dir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("mode", session.Mode, "in the workspace:", session.Dir == dir)
	stop()
	fmt.Println(<-served)
	// Output:
	// mode default in the workspace: true
	// <nil>
}
