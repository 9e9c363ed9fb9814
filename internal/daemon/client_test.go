package daemon

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/paths"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// daemonInProcess serves a workspace of its own until the test ends, and returns
// clients of its two sockets.
func daemonInProcess(t *testing.T) (agent, operator *client.Client, dir string) {
	t.Helper()
	root, err := os.MkdirTemp("/var/tmp", "sandboxd-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	dir = filepath.Join(root, "work")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(root, "conf.yaml")
	if err := os.WriteFile(conf, []byte("workspace: {roots: ["+dir+"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SANDBOXD_CONFIG", conf)
	t.Setenv("SANDBOXD_STATE_DIR", filepath.Join(root, "state"))
	t.Setenv("SANDBOXD_RUNTIME_DIR", filepath.Join(root, "run"))
	t.Setenv("SANDBOXD_SOCKET", "")
	t.Setenv("SANDBOXD_OPERATOR_SOCKET", "")
	if got, want := paths.AgentSocket(os.Getenv), filepath.Join(root, "run", "agent.sock"); got != want {
		t.Errorf("clients look for the daemon at %s, it is at %s", got, want)
	}
	h, err := Load("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	greeted, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, "test", nil, out); out.Close() }()
	if _, err := greeted.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the daemon did not start: %v", <-served)
	}
	go io.Copy(io.Discard, greeted)
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return client.New(h.Paths.AgentSocket), client.New(h.Paths.OperatorSocket), dir
}

func TestClient_CallsVariablesAndEvents(t *testing.T) {
	ctx := t.Context()
	c, operator, dir := daemonInProcess(t)
	s, err := c.SessionFor(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Events(ctx, client.EventFilter{
		Types: []string{"call_begin", "call_end"}, Sessions: []string{s.ID},
	})
	if err != nil {
		t.Fatal(err)
	}
	next, done := iter.Pull2(events)
	defer done()

	r, err := c.Call(ctx, s.ID, "Bash", json.RawMessage(`{"command": "echo hello"}`))
	if err != nil || r.Status != client.StatusSuccess || r.VarResult == "" {
		t.Fatalf("got %+v, %v", r, err)
	}
	for _, want := range []string{"call_begin", "call_end"} {
		if e, err, ok := next(); !ok || err != nil || e.Type != want || e.Call != r.CallID || e.Tool != "Bash" {
			t.Errorf("got %+v, %v, want %s of the call", e, err, want)
		}
	}

	for i := range 120 { // more than a page
		name := fmt.Sprintf("n/%03d ä", i)
		if v, err := c.PutVar(ctx, s.ID, name, client.VarChange{Value: map[string]int{"i": i}}); err != nil || v.Name != name {
			t.Fatalf("got %+v, %v", v, err)
		}
	}
	all, err := c.Vars(ctx, s.ID, client.VarFilter{Search: "n/"})
	if err != nil || len(all) != 120 || all[0].Name != "n/119 ä" || all[0].Value != nil {
		t.Errorf("got %d variables, %v", len(all), err)
	}
	v, err := c.Var(ctx, s.ID, "n/007 ä")
	if err != nil || *v.Value != `{"i":7}` || fmt.Sprint(v.Origins) != "[model tool]" {
		t.Errorf("got %+v, %v", v, err)
	}
	if v, err = operator.PutVar(ctx, s.ID, "mine", client.VarChange{Value: "x"}); err != nil ||
		fmt.Sprint(v.Origins) != "[person]" {
		t.Errorf("got %+v, %v, want a person's", v, err)
	}
	removed, failed, err := c.RemoveVars(ctx, s.ID, "mine", "Rule/Agent/TODO", "none")
	if err != nil || fmt.Sprint(removed, failed) != "[mine] [Rule/Agent/TODO none]" {
		t.Errorf("got %v, %v, %v", removed, failed, err)
	}
	var e *client.Error
	if _, err = c.Var(ctx, s.ID, "mine"); !errors.As(err, &e) || e.Code != "variable_not_found" {
		t.Errorf("got %v, want variable_not_found", err)
	}

	if got, err := c.Origins(ctx, s.ID); err != nil || fmt.Sprint(got.Session) != "[tool]" {
		t.Errorf("got %v, %v", got, err)
	}
	if err := c.ResetOrigins(ctx, s.ID); !errors.As(err, &e) || e.Code != "operator_only" {
		t.Errorf("got %v, want an agent refused", err)
	}
	if err := operator.ResetOrigins(ctx, s.ID); err != nil {
		t.Error(err)
	}
	if got, err := c.Origins(ctx, s.ID); err != nil || len(got.Session) != 0 {
		t.Errorf("got %v, %v after the reset", got, err)
	}
	if _, err := c.Events(ctx, client.EventFilter{Types: []string{"nope"}}); !errors.As(err, &e) ||
		!strings.Contains(e.Msg, "nope") {
		t.Errorf("got %v, want the unknown type refused", err)
	}
}

func TestClient_NobodyListens(t *testing.T) {
	c := client.New(filepath.Join(t.TempDir(), "none.sock"))
	_, vars := c.Vars(t.Context(), "s", client.VarFilter{})
	_, events := c.Events(t.Context(), client.EventFilter{})
	for _, err := range []error{vars, events} {
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "daemon_unreachable" {
			t.Errorf("got %v, want it told apart", err)
		}
	}
}

func TestClient_TheDaemonEndsMeanwhile(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	_, err = client.New(socket).Vars(t.Context(), "s", client.VarFilter{})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "connection_lost" {
		t.Errorf("got %v, want it told apart", err)
	}
}

// TestClient_EventsAreWhole: the client reads every field that the daemon sends.
func TestClient_EventsAreWhole(t *testing.T) {
	known := map[string]bool{}
	for f := range reflect.TypeFor[client.Event]().Fields() {
		known[f.Tag.Get("json")] = true
	}
	for f := range reflect.TypeFor[events.Event]().Fields() {
		if tag := f.Tag.Get("json"); !known[tag] {
			t.Errorf("client.Event lacks %s %s", f.Name, tag)
		}
	}
}

// TestClient_TypesAreThoseOfTheWire: what the daemon sends and reads has the same
// JSON as the types of the client.
func TestClient_TypesAreThoseOfTheWire(t *testing.T) {
	sameWire(t, "Error", reflect.TypeFor[client.Error](), reflect.TypeFor[tool.Error]())
	sameWire(t, "Result", reflect.TypeFor[client.Result](), reflect.TypeFor[tool.Result]())
	sameWire(t, "Lease", reflect.TypeFor[client.Lease](), reflect.TypeFor[tool.Lease]())
	sameWire(t, "LeaseEnd", reflect.TypeFor[client.LeaseEnd](), reflect.TypeFor[tool.LeaseEnd]())
}

// sameWire compares names, options and kinds of the fields. Text that the daemon
// makes of a number, and JSON that the client passes on, are not looked into.
func sameWire(t *testing.T, at string, got, want reflect.Type) {
	t.Helper()
	text := reflect.TypeFor[encoding.TextMarshaler]()
	switch {
	case got == reflect.TypeFor[json.RawMessage](), got.Kind() == reflect.String && want.Implements(text):
		return
	case got.Kind() != want.Kind():
		t.Errorf("%s is %s, want %s", at, got, want)
		return
	}
	switch got.Kind() {
	case reflect.Pointer, reflect.Slice:
		sameWire(t, at, got.Elem(), want.Elem())
	case reflect.Struct:
		g, w := wireFields(got), wireFields(want)
		if len(g) != len(w) {
			t.Errorf("%s has %d fields, want %d", at, len(g), len(w))
			return
		}
		for i := range g {
			if g[i].Tag.Get("json") != w[i].Tag.Get("json") {
				t.Errorf("%s.%s is %s, want %s", at, g[i].Name, g[i].Tag.Get("json"), w[i].Tag.Get("json"))
			}
			sameWire(t, at+"."+g[i].Name, g[i].Type, w[i].Type)
		}
	}
}

// wireFields are the fields of a struct that are in its JSON, in order.
func wireFields(s reflect.Type) (fields []reflect.StructField) {
	for f := range s.Fields() {
		if f.IsExported() && f.Tag.Get("json") != "-" {
			fields = append(fields, f)
		}
	}
	return fields
}
