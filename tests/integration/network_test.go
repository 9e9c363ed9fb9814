package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// networked is a daemon whose programs reach a server of this test as up.test, and as others
// that no list names.
func networked(t *testing.T) *running {
	t.Helper()
	needs.Program(t, "curl")
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			_, _ = io.WriteString(w, "begun\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "hello of "+r.Host+"\n")
	}))
	t.Cleanup(upstream.CloseClientConnections)
	t.Cleanup(upstream.Close)
	at := upstream.Listener.Addr().String()
	d := newDaemon(t, fmt.Sprintf(`
sessions: {mode: auto}
sandbox:
  network:
    allowedDomains: [up.test]
    deniedDomains: [bad.test]
    unlisted: ask
    hosts: {"up.test:80": %[1]q, "ask.test:80": %[1]q, "bad.test:80": %[1]q}
`, at))
	d.needsWayOut()
	return d
}

// curl is a call that fetches, without a proxy variable.
func curl(url string) string {
	args, _ := json.Marshal(map[string]string{"command": "curl -sS -m 60 " + url})
	return string(args)
}

// hears waits until a program of the cage has received what a stream begins with.
func (d *running) hears() {
	d.t.Helper()
	if !waitFor(func() bool {
		text, _ := os.ReadFile(filepath.Join(d.ws, "heard"))
		return strings.Contains(string(text), "begun")
	}) {
		d.t.Fatal("nothing is received")
	}
}

// forget lets a session reach a host that no list names unasked, though it has read what came in.
func (d *running) forget(session string) {
	d.t.Helper()
	if err := d.operator.Do(d.t.Context(), "POST", "/sessions/"+session+"/origins/reset", map[string]any{}, nil); err != nil {
		d.t.Fatal(err)
	}
}

// question waits for the question about a connection, as somebody who watches does.
func (d *running) question() (id string) {
	d.t.Helper()
	var items []struct {
		ID         string
		Type       string
		Connection struct{ Host string }
	}
	if !waitFor(func() bool {
		items = nil
		err := d.operator.Do(d.t.Context(), "GET", "/approvals", nil, &items)
		return err == nil && len(items) == 1
	}) {
		d.t.Fatalf("nobody is asked: %+v", items)
	}
	if items[0].Type != "connection" || items[0].Connection.Host != "ask.test" {
		d.t.Fatalf("asked %+v", items)
	}
	return items[0].ID
}

// TestX09_X12_ProgramsReachWhatTheSettingsList: the answer, the record, the variables, the
// metrics and the command line say so.
func TestX09_X12_ProgramsReachWhatTheSettingsList(t *testing.T) {
	d := networked(t)
	s := d.session()
	events, err := d.agent.Events(t.Context(), client.EventFilter{Types: []string{"connection"}})
	if err != nil {
		t.Fatal(err)
	}
	r := d.call(s, "Bash", curl("http://up.test/"))
	if r.Status != client.StatusSuccess || r.FormattedText != "hello of up.test\n" || r.Network == nil || len(r.Network.Connections) != 1 {
		t.Fatalf("got %s %q %+v", r.Status, r.FormattedText, r.Network)
	}
	row := r.Network.Connections[0]
	if row.Host != "up.test" || row.Port != 80 || row.Protocol != "http" || row.Via != "transparent" || row.Verdict != "allow" ||
		row.Rule != "network.allowedDomains: up.test" || row.BytesIn == 0 || row.Count != 1 {
		t.Errorf("got %+v", row)
	}
	var heard []string
	for e, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, e.Status+" "+e.Connection.Host)
		if e.Status == "ended" {
			break
		}
	}
	if strings.Join(heard, ", ") != "allow up.test, ended up.test" {
		t.Errorf("heard %q", heard)
	}
	var origins struct{ Session []string }
	if err := d.agent.Do(t.Context(), "GET", "/sessions/"+s+"/origins", nil, &origins); err != nil ||
		!strings.Contains(fmt.Sprint(origins), "web") {
		t.Errorf("what came in is not the web's: %+v, %v", origins, err)
	}
	said := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, "sandboxd"), args...)
		cmd.Env, cmd.Dir = d.env, d.ws
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v %s", args, err, out)
		}
		return string(out)
	}
	if tail := said("audit", "tail", "--json"); !strings.Contains(tail, `"network":{"connections":[{"host":"up.test","port":80`) {
		t.Errorf("the record lacks the connection:\n%s", tail)
	}
	for host, want := range map[string]string{
		"up.test": "allow, decided by the sandbox settings", "bad.test:80": "network.deniedDomains: bad.test",
		"ask.test:80": "a person is asked when a program connects", "10.0.0.1": "deny, decided by the sandbox settings",
	} {
		if out := said("network", "explain", host); !strings.Contains(out, want) {
			t.Errorf("explain %s: %s, want %q", host, out, want)
		}
	}
	if out := said("network", "explain", "up.test:80"); !strings.Contains(out, "network.hosts: it is at 127.0.0.1:") {
		t.Errorf("explain up.test:80: %s", out)
	}
	// The command of a lease is judged here, and runs elsewhere.
	var kept struct {
		CallID string `json:"call_id"`
	}
	want := map[string]any{"session_id": s, "tool": "Bash", "args": json.RawMessage(curl("http://up.test/")), "hold": true}
	if err := d.agent.Do(t.Context(), "POST", "/decide", want, &kept); err != nil {
		t.Fatal(err)
	}
	if out := said("exec", "--call", kept.CallID); out != "hello of up.test\n" {
		t.Errorf("a leased call: %s", out)
	}
	// A host that the settings deny is refused before the run.
	if r := d.call(s, "Bash", curl("http://bad.test/")); r.Error == nil || r.Error.Code != "host_denied" {
		t.Errorf("a denied host: %+v", r)
	}
}

// TestAPersonIsAskedAtTheConnection: nobody is there, then somebody watches; an answer for the
// session holds; a tighter session ends what is open.
func TestAPersonIsAskedAtTheConnection(t *testing.T) {
	d := networked(t)
	s := d.session()
	r := d.call(s, "Bash", curl("http://ask.test/"))
	if !strings.Contains(r.FinalText, "ask.test is refused: nobody is there to be asked about a connection") ||
		!strings.Contains(r.FinalText, "hint: an operator can list it in sandbox.network.allowedDomains") {
		t.Fatalf("nobody is there: %s", r.FinalText)
	}
	answered := make(chan client.Result, 1)
	ask := func(url string) {
		r, err := d.agent.Call(context.WithoutCancel(t.Context()), s, "Bash", json.RawMessage(curl(url)))
		if err != nil {
			r.FinalText = err.Error()
		}
		answered <- r
	}
	var none any
	if err := d.operator.Do(t.Context(), "GET", "/approvals", nil, &none); err != nil { // somebody looks
		t.Fatal(err)
	}
	go ask("http://ask.test/")
	id := d.question()
	body := map[string]any{"approved": true, "remember": "session"}
	if err := d.operator.Do(t.Context(), "POST", "/approvals/"+id, body, nil); err != nil {
		t.Fatal(err)
	}
	if r := <-answered; r.FormattedText != "hello of ask.test\n" || r.Network.Connections[0].Rule != "person" {
		t.Errorf("a person said yes: %q %+v", r.FormattedText, r.Network)
	}
	d.forget(s)
	if r := d.call(s, "Bash", curl("http://ask.test/")); r.FormattedText != "hello of ask.test\n" {
		t.Errorf("it is asked again: %s", r.FinalText)
	}
	go ask("-N http://up.test/stream | tee heard")
	d.hears()
	tight := map[string]any{"sandbox": map[string]any{"network": map[string]any{"allowedDomains": []string{}, "unlisted": "deny"}}}
	if err := d.operator.Do(t.Context(), "PATCH", "/sessions/"+s, tight, nil); err != nil {
		t.Fatal(err)
	}
	if r := <-answered; r.Status != client.StatusSuccess || strings.Contains(r.FormattedText, "timed out") ||
		!strings.Contains(r.FormattedText, "begun") {
		t.Errorf("a connection outlives what allowed it: %s", r.FinalText)
	}
}

// TestAConnectionOfALeasedCallEndsWithWhatAllowedIt, as that of a call which runs here.
func TestAConnectionOfALeasedCallEndsWithWhatAllowedIt(t *testing.T) {
	d := networked(t)
	s := d.session()
	var kept struct {
		CallID string `json:"call_id"`
	}
	want := map[string]any{"session_id": s, "tool": "Bash", "args": json.RawMessage(curl("-N http://up.test/stream | tee heard")), "hold": true}
	if err := d.agent.Do(t.Context(), "POST", "/decide", want, &kept); err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	go func() {
		out, _ := d.exec("sandboxd", "exec", "--call", kept.CallID) // curl fails
		ended <- out
	}()
	d.hears()
	tight := map[string]any{"sandbox": map[string]any{"network": map[string]any{"allowedDomains": []string{}, "unlisted": "deny"}}}
	if err := d.operator.Do(t.Context(), "PATCH", "/sessions/"+s, tight, nil); err != nil {
		t.Fatal(err)
	}
	if out := <-ended; !strings.Contains(out, "begun") || strings.Contains(out, "timed out") {
		t.Errorf("a connection outlives what allowed it: %s", out)
	}
}
