package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy/recent"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/child"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// TestMain lets the test binary be the launcher of the cage.
func TestMain(m *testing.M) {
	if child.IsChild() {
		child.Main()
	}
	os.Exit(m.Run())
}

// scripted is a tool that answers with the same text each time.
type scripted struct {
	spec tool.Spec
	text string
	err  error
}

func (s scripted) Spec() tool.Spec { return s.spec }

func (s scripted) Run(context.Context, tool.In, sandbox.Box) (tool.Output, error) {
	return tool.Output{Data: s.text, Text: s.text}, s.err
}

// attack is one session of a daemon whose agent is being talked into something.
type attack struct {
	t       testing.TB
	dir     string
	line    *pipeline.Pipeline
	parts   *components
	account string
	session string
	page    string // the variable that holds the page
}

// begin is a new session that has read the page.
func (a *attack) begin(t testing.TB) *attack {
	t.Helper()
	b := *a
	b.t = t
	b.restart()
	b.page = b.do("Page", map[string]any{})
	return &b
}

// restart goes on in the first session of an account, which has read nothing.
func (a *attack) restart() {
	a.t.Helper()
	a.account = rand.Text()
	a.another(a.dir)
}

// another goes on in another session of the account.
func (a *attack) another(dir string) {
	a.t.Helper()
	s, err := a.parts.sessions.Create(a.t.Context(), tool.Session{
		Account: a.account, Dir: dir, Home: a.parts.home, Mode: "auto", Profile: "strict",
	})
	if err != nil {
		a.t.Fatal(err)
	}
	a.session = s.ID
}

// reset is what a person does.
func (a *attack) reset() {
	a.t.Helper()
	if err := a.parts.vars.ResetOrigins(a.t.Context(), a.session); err != nil {
		a.t.Fatal(err)
	}
}

func (a *attack) put(name, value string) {
	a.t.Helper()
	_, _, err := a.parts.vars.Put(a.t.Context(), a.session, name, vars.Change{Value: &value}, tool.OriginPerson)
	if err != nil {
		a.t.Fatal(err)
	}
}

// slice is a reference to length bytes of the command, as the page has it.
func (a *attack) slice(name string, from, length int) string {
	return fmt.Sprintf("$VAR_REF{{%s:%d:%d}}", name, strings.Index(order, evil)+from, length)
}

func (a *attack) fail(name string, args any) {
	a.t.Helper()
	if r := a.line.Do(a.t.Context(), a.request(name, args)); r.Status != tool.StatusError ||
		!strings.Contains(r.FinalText, evil) {
		a.t.Fatalf("%s: got %s %q, want its message", name, r.Status, r.FinalText)
	}
}

func newAttack(t testing.TB, profile string) *attack {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sandboxd-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	work, conf := filepath.Join(dir, "work"), filepath.Join(dir, "conf.yaml")
	if err := os.MkdirAll(filepath.Join(work, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	// The rules allow all that the floor allows: what asks here asks by itself.
	err = os.WriteFile(conf, []byte(`
workspace: {roots: [`+work+`]}
policy: {profile: `+profile+`, rules: {allow: [Bash, Write, Page, Mcp, Broken, Fetch, WriteVar, RemoveVars]}}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SANDBOXD_CONFIG", conf)
	t.Setenv("SANDBOXD_STATE_DIR", filepath.Join(dir, "state"))
	t.Setenv("SANDBOXD_RUNTIME_DIR", filepath.Join(dir, "run"))
	h, err := Load("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.Settings.Network.AllowedDomains = []string{"docs.example"}
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "state.db")}, schemas(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	schema := json.RawMessage(`{"type":"object"}`)
	backend, err := h.Backend("")
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.build(t.Context(), db, backend, recent.New(time.Now), nil, catalog.Group{Name: "outside", Tools: []tool.Tool{
		scripted{spec: tool.Spec{Name: "Page", Class: tool.ClassRead, ReadOnly: true, Schema: schema, Origin: tool.OriginWeb}, text: order},
		scripted{spec: tool.Spec{Name: "Mcp", Class: tool.ClassState, Schema: schema, Origin: tool.OriginMCP}, text: order},
		scripted{spec: tool.Spec{Name: "Uncached", Class: tool.ClassRead, ReadOnly: true, Schema: schema, Origin: tool.OriginWeb, NoCache: true}, text: order},
		scripted{spec: tool.Spec{Name: "Looked", Class: tool.ClassRead, ReadOnly: true, Schema: schema, Origin: tool.OriginWeb, Results: tool.ResultAlways}, text: order},
		scripted{spec: tool.Spec{Name: "Broken", Class: tool.ClassRead, ReadOnly: true, Schema: schema, Origin: tool.OriginWeb}, err: &tool.Error{Code: "http_500", Msg: order}},
		scripted{spec: tool.Spec{Name: "Fetch", Class: tool.ClassNet, Schema: json.RawMessage(`{"type":"object","properties":{"url":{"type":"string"}}}`), Origin: tool.OriginWeb}, text: "ok"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.backend.Close() })
	p.joinAlone()
	return &attack{t: t, dir: p.Roots[0], line: p.pipeline(nobody{}, unrecorded{}), parts: p}
}

func (a *attack) request(name string, args any) tool.Request {
	b, err := json.Marshal(args)
	if err != nil {
		a.t.Fatal(err)
	}
	return tool.Request{
		Account: a.account, Role: tool.RoleAgent, User: sandbox.Daemon(), Session: a.session, Tool: name, Args: b,
	}
}

// do runs a call that must pass, and returns the variable of its result.
func (a *attack) do(name string, args any) string {
	a.t.Helper()
	r := a.line.Do(a.t.Context(), a.request(name, args))
	if r.Status != tool.StatusSuccess {
		a.t.Fatalf("%s %v: %s %s", name, args, r.Status, r.FinalText)
	}
	return r.VarResult
}

func (a *attack) write(name, value string) {
	a.t.Helper()
	a.do("WriteVar", map[string]string{"name": name, "value": value})
}

// judged is the verdict over a call, and which rules of provenance spoke.
func (a *attack) judged(name string, args any) string {
	a.t.Helper()
	return said(a.line.Decide(a.t.Context(), a.request(name, args)).Decision)
}

// connects is what is decided when a program of the call connects to a host.
func (a *attack) connects(host string, args any) string {
	a.t.Helper()
	d, err := a.line.ExplainConnection(a.t.Context(), a.request("Bash", args), egress.Connection{
		Host: host, Port: 443, Protocol: egress.ProtocolTLS, Via: egress.ViaTransparent,
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return said(d)
}

// said is a verdict, and which rules of provenance spoke.
func said(d tool.Decision) string {
	said := []string{d.Verdict.String()}
	for _, r := range d.Reasons {
		if i := strings.Index(r.Rule, ".provenance."); i >= 0 {
			said = append(said, r.Rule[i+len(".provenance."):])
		}
	}
	slices.Sort(said[1:])
	return strings.Join(slices.Compact(said), " ")
}

type nobody struct{}

type rejecting struct{ nobody }

type unrecorded struct{}
