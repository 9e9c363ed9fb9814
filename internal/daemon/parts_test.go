package daemon

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"golang.org/x/sync/errgroup"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// notes is a whole feature: a table, a tool, routes, a section of the configuration,
// and everything that happens around it.
type notes struct {
	host part.Host

	mu     sync.Mutex // guards what follows
	most   int
	log    []string
	closed bool
}

type notesConfig struct {
	Most int `yaml:"most"`
}

func (c *notesConfig) Check() error {
	if c.Most < 1 {
		return errors.New("most must be at least 1")
	}
	return nil
}

func (n *notes) definition() part.Definition {
	return part.Definition{
		Name: "notes",
		Schema: store.Schema{Name: "notes", Files: fstest.MapFS{
			"0001_notes.sql": {Data: []byte(`CREATE TABLE notes (session TEXT NOT NULL, text TEXT NOT NULL);`)},
		}},
		Config: func() part.Config { return &notesConfig{Most: 2} },
		Open: func(_ context.Context, h part.Host) (part.Part, error) {
			n.host, n.most = h, h.Config.(*notesConfig).Most
			return n.part(), nil
		},
		Describe: func(part.Config) part.Part { return n.part() },
		Doctor: func(context.Context, part.Config) []part.Finding {
			return []part.Finding{{What: "notes", OK: true, Why: "nothing is needed"}}
		},
	}
}

func (n *notes) part() part.Part {
	said := func(what string) { n.mu.Lock(); defer n.mu.Unlock(); n.log = append(n.log, what) }
	return part.Part{
		Groups: []catalog.Group{{Name: "notes", Tools: []tool.Tool{note{n}}}},
		Routes: []route.Route{
			{
				Pattern: "GET /sessions/{id}/notes", Role: tool.RoleAgent, Handle: n.list,
				Spec: route.Spec{Summary: "List notes", Out: []string{}},
			},
			{
				Pattern: "GET /notes/stream", Role: tool.RoleOperator, Handle: n.stream,
				Spec: route.Spec{Summary: "Notes as they come", Events: events.Event{}},
			},
		},
		Created: func(_ *sql.Tx, s tool.Session) error { said("created " + s.ID); return nil },
		Deleted: func(tx *sql.Tx, id string) error {
			said("deleted " + id)
			_, err := tx.Exec(`DELETE FROM notes WHERE session = $1`, id)
			return err
		},
		Forget: func(_ context.Context, s tool.Session) error { said("forget " + s.ID); return nil },
		Ended:  func(c *tool.Call) { said("ended " + c.Request.Tool) },
		Reload: func(_ context.Context, c part.Config) { n.most = c.(*notesConfig).Most; said("reload") },
		Metrics: []part.Gauge{
			{Name: "notes", Help: "How many notes there may be.", Value: func() float64 { return float64(n.most) }},
		},
		Status: func() any { return map[string]int{"most": n.most} },
		Close:  func() error { n.closed = true; return nil },
	}
}

func (n *notes) list(r *http.Request) (any, error) {
	s, err := n.host.Session(r)
	if err != nil {
		return nil, err
	}
	list := []string{}
	err = n.host.DB.Read(r.Context(), func(tx *sql.Tx) error {
		rows, err := tx.Query(`SELECT text FROM notes WHERE session = $1`, s.ID)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			list = append(list, text)
		}
		return rows.Err()
	})
	return list, err
}

func (n *notes) stream(r *http.Request) (any, error) {
	return n.host.Events.Stream(r.Context(), func(e events.Event) bool { return e.Type == events.Notification }, nil)
}

// note is the tool that writes a note.
type note struct{ n *notes }

func (note) Spec() tool.Spec {
	return tool.Spec{
		Name: "Note", Description: "Writes a note.", Class: tool.ClassState, ReadOnly: true,
		Schema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
	}
}

func (note) Uses(context.Context, tool.In) (guard.Uses, error) { return guard.Uses{}, nil }

func (t note) Run(ctx context.Context, in tool.In, _ sandbox.Box) (tool.Output, error) {
	var args struct{ Text string }
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return tool.Output{}, err
	}
	err := t.n.host.DB.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO notes (session, text) VALUES ($1, $2)`, in.Session, args.Text)
		return err
	})
	return tool.Output{Text: "noted"}, err
}

// TestAFeatureIsOneElement: everything that a part brings is in force, and nothing but
// the list of features names it.
func TestAFeatureIsOneElement(t *testing.T) {
	dir := siteDir(t, "notes: {most: 7}\ntools: {groups: {notes: true}}\n")
	n := &notes{}
	site, err := load("test", "", nil, []part.Definition{n.definition()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	d, err := openDaemon(ctx, site, stop)
	if err != nil {
		t.Fatal(err)
	}
	agent, operator := serveBoth(t, ctx, d, site)

	var s struct{ ID string }
	do(t, agent, "POST", "/sessions", map[string]any{"id": "s1"}, &s)
	r, err := agent.Call(ctx, "s1", "Note", json.RawMessage(`{"text":"milk"}`))
	if err != nil || r.FinalText != "noted" && !strings.HasPrefix(r.FinalText, "noted\n") {
		t.Errorf("the tool: %+v, %v", r, err)
	}
	var list []string
	do(t, agent, "GET", "/sessions/s1/notes", nil, &list)
	if !slices.Equal(list, []string{"milk"}) {
		t.Errorf("the route: %q", list)
	}
	if err := agent.Do(ctx, "GET", "/notes/stream", nil, nil); err == nil ||
		!strings.Contains(err.Error(), "operators") {
		t.Errorf("a route of operators on the agent socket: %v", err)
	}
	var status struct {
		Parts struct{ Notes struct{ Most int } }
	}
	do(t, operator, "GET", "/status", nil, &status)
	if status.Parts.Notes.Most != 7 {
		t.Errorf("the section or the status: %+v", status)
	}
	if text := scrape(t, d); !strings.Contains(text, "sandboxd_notes 7") {
		t.Error("the metric is not shown")
	}
	conf := filepath.Join(dir, "conf.yaml")
	text, _ := os.ReadFile(conf)
	if err := os.WriteFile(conf, []byte(strings.Replace(string(text), "most: 7", "most: 9", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Reload(ctx, "test", false); err != nil || n.most != 9 {
		t.Errorf("the reload: %v, most %d", err, n.most)
	}
	do(t, agent, "DELETE", "/sessions/s1", nil, nil)
	do(t, agent, "POST", "/sessions", map[string]any{"id": "s1"}, &s)
	do(t, agent, "GET", "/sessions/s1/notes", nil, &list)
	if len(list) != 0 {
		t.Errorf("notes of a deleted session: %q", list)
	}
	want := []string{"created s1", "ended Note", "reload", "deleted s1", "forget s1", "created s1"}
	if !slices.Equal(n.log, want) {
		t.Errorf("got %q, want %q", n.log, want)
	}
	if rows := site.Doctor(ctx); len(rows) != 2 || rows[0].What != "disk" || rows[1].What != "notes" {
		t.Errorf("the rows of the doctor: %+v", rows)
	}
	doc, err := openAPI([]part.Definition{n.definition()})
	if err != nil || !strings.Contains(string(doc), "/sessions/{id}/notes") {
		t.Errorf("the document lacks the route: %v", err)
	}
	stop(nil)
	d.close()
	if !n.closed {
		t.Error("the part was not closed")
	}
}

// A section is as strict as the rest of the file.
func TestASectionOfAPart(t *testing.T) {
	for text, want := range map[string]string{
		"notes: {most: 0}\n":              "conf.yaml:2: notes: most must be at least 1",
		"notes:\n  most: 3\n  least: 1\n": `conf.yaml:4: notes: unknown key "least"`,
		"notes: {most: many}\n":           "conf.yaml:2: notes.most: want a whole number",
		"nodes: {most: 3}\n":              `conf.yaml:2: unknown key "nodes"`,
	} {
		siteDir(t, text)
		if _, err := load("test", "", nil, []part.Definition{(&notes{}).definition()}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	siteDir(t, "")
	site, err := load("test", "", nil, []part.Definition{(&notes{}).definition()})
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, v := range site.Config.Explain() {
		shown[v.Key] = string(v.Value)
	}
	if shown["notes.most"] != "2" {
		t.Errorf("config show says %q of notes.most", shown["notes.most"])
	}
	if _, err := load("test", "", nil, nil); err != nil {
		t.Error(err)
	}
}

// The list is that of docs/configuration.md; TestWhatNeedsARestart has the sections of the core.
func TestSectionsThatNeedARestart(t *testing.T) {
	u := newUndoing(t)
	conf := os.Getenv("SANDBOXD_CONFIG")
	before, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(filepath.Dir(conf), "token")
	if err := os.WriteFile(token, []byte(strings.Repeat("x", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	for more, want := range map[string]string{
		"":                       "",
		"undo: {keepDays: 3}":    "",
		"web: {sessionHours: 3}": "web",
		"mcp: {listen: '127.0.0.1:0', tokenFile: " + token + "}":  "mcp.listen",
		"mcp: {firstSight: ask}":                                  "",
		"jobs: {keepEnded: 3}":                                    "",
		"cron: {perAccount: 3}":                                   "",
		"text: {breakerCalls: 3}":                                 "",
		"skills: {workspace: true}":                               "",
		"agents: {types: {a: {description: d, systemPrompt: p}}}": "",
	} {
		if err := os.WriteFile(conf, append(slices.Clone(before), more+"\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
		next, err := Load("test", nil)
		if err != nil {
			t.Fatalf("%s: %v", more, err)
		}
		if got := u.daemon.needsRestart(next); got != want {
			t.Errorf("%s: %q needs a restart, want %q", more, got, want)
		}
	}
}

// What sections name is a program or a directory that agents cannot change, and a secret that they cannot read.
func TestWhatSectionsNameIsOutOfReach(t *testing.T) {
	for _, section := range []string{
		"skills: {dirs: [WORK/skills]}",
		"agents: {spawner: {command: [WORK/spawn]}}",
		"agents: {spawner: {command: [/bin/sh, WORK/spawn]}}",
		"lsp: {servers: {go: {command: WORK/gopls, extensions: [.go]}}}",
		"mcp: {servers: {notes: {command: WORK/notes}}}",
		"web: {listen: '127.0.0.1:0', tls: {certFile: /etc/cert.pem, keyFile: WORK/key.pem}}",
		"web: {listen: '127.0.0.1:0', tls: {certFile: WORK/cert.pem, keyFile: /etc/key.pem}}",
	} {
		dir := siteDir(t, "")
		conf := filepath.Join(dir, "conf.yaml")
		text := "workspace: {roots: [" + dir + "/work]}\n" + strings.ReplaceAll(section, "WORK", dir+"/work") + "\n"
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load("test", nil); err == nil || !strings.Contains(err.Error(), "agents can write") {
			t.Errorf("%s: got %v", section, err)
		}
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(strings.Repeat("x", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	siteDir(t, "mcp: {listen: '127.0.0.1:0', tokenFile: "+token+"}\n")
	site, err := Load("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(site.Settings.DeniedPaths, token) {
		t.Errorf("programs may read the token: %q", site.Settings.DeniedPaths)
	}
	siteDir(t, "web: {listen: '127.0.0.1:0', tls: {certFile: /etc/cert.pem, keyFile: "+token+"}}\n")
	if site, err = Load("test", nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(site.Settings.DeniedPaths, token) {
		t.Errorf("programs may read the key of the page: %q", site.Settings.DeniedPaths)
	}
}

// siteDir makes a workspace with a configuration, and points the environment at them.
func siteDir(t *testing.T, more string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sandboxd-test-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "conf.yaml")
	if err := os.WriteFile(conf, []byte("workspace: {roots: ["+dir+"/work]}\n"+more), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SANDBOXD_CONFIG", conf)
	t.Setenv("SANDBOXD_STATE_DIR", filepath.Join(dir, "state"))
	t.Setenv("SANDBOXD_RUNTIME_DIR", filepath.Join(dir, "run"))
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func serveBoth(t *testing.T, ctx context.Context, d *daemon, site *Site) (agent, operator *client.Client) {
	t.Helper()
	agents, operators, err := listen(site)
	if err != nil {
		t.Fatal(err)
	}
	go d.front.Serve(ctx, agents, tool.RoleAgent)
	go d.front.Serve(ctx, operators, tool.RoleOperator)
	return client.New(site.Paths.AgentSocket), client.New(site.Paths.OperatorSocket)
}

func do(t *testing.T, c *client.Client, method, path string, in, out any) {
	t.Helper()
	if err := c.Do(t.Context(), method, path, in, out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

func scrape(t *testing.T, d *daemon) string {
	t.Helper()
	w := httptest.NewRecorder()
	d.metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	return w.Body.String()
}

// The daemon closes a part when its Serve has ended, and ends with the error of one.
func TestWhoServesPartsWaitsForThem(t *testing.T) {
	failed, ended := errors.New("no port"), false
	g, ctx := errgroup.WithContext(t.Context())
	serveParts(ctx, g, []feature{
		{},
		{Part: part.Part{Serve: func(ctx context.Context) error {
			<-ctx.Done() // the other has failed
			ended = true
			return nil
		}}},
		{Part: part.Part{Serve: func(context.Context) error { return failed }}},
	})
	if err := g.Wait(); !errors.Is(err, failed) || !ended {
		t.Errorf("got %v, the other has ended: %t", err, ended)
	}
}
