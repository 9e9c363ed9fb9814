package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// rawMCP is a client that writes lines itself.
type rawMCP struct {
	t     testing.TB
	in    io.Writer
	lines *bufio.Reader
}

func (d *running) rawMCP(t testing.TB) *rawMCP {
	in, out, _ := d.bridge(t)
	c := &rawMCP{t, in, bufio.NewReaderSize(out, 1<<20)}
	c.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"raw","version":"1"}}}`)
	c.answerTo(`"i"`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *rawMCP) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// answerTo reads lines until the answer to an id.
func (c *rawMCP) answerTo(id string) string {
	c.t.Helper()
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			c.t.Fatalf("no answer to %s: %v", id, err)
		}
		var head struct {
			ID json.RawMessage `json:"id"`
		}
		if err := json.Unmarshal([]byte(line), &head); err != nil {
			c.t.Fatalf("stdout has a line that is no JSON: %q", line)
		}
		if string(head.ID) == id {
			return line
		}
	}
}

func TestM02_ABadClientHurtsItselfAlone(t *testing.T) {
	d := newDaemon(t, "")
	c := d.rawMCP(t)
	for i, tt := range []struct{ name, line, want string }{
		{"no JSON", "hello", ""},
		{"half a line", `{"jsonrpc":"2.0","id":1,`, ""},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, ""},
		{"no message", `{}`, ""},
		{"another version", `{"jsonrpc":"1.0","id":"v","method":"ping"}`, "not JSON-RPC 2.0"},
		{"nested 1,000 deep", `{"jsonrpc":"2.0","id":"d","method":"ping","params":` + strings.Repeat(`{"a":`, 1000) + "1" +
			strings.Repeat("}", 1000) + "}", "nests more than 1000"},
		{"17 MB", `{"jsonrpc":"2.0","id":"l","method":"ping","params":{"a":"` + strings.Repeat("x", 17<<20) + `"}}`, "more than"},
		{"arguments nested 900 deep", `{"jsonrpc":"2.0","id":"n","method":"tools/call","params":{"name":"Read","arguments":` +
			strings.Repeat(`{"a":`, 900) + "1" + strings.Repeat("}", 900) + `}}`, "isError"},
		{"params that are none", `{"jsonrpc":"2.0","id":"p","method":"tools/call","params":7}`, "error"},
		{"an unknown method", `{"jsonrpc":"2.0","id":"m","method":"no/such"}`, "error"},
		{"an answer that nobody asked for", `{"jsonrpc":"2.0","id":99,"result":{}}`, ""},
		{"a cancellation of nothing", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`, ""},
		{"a requestState of nothing", `{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"Bash",` +
			`"arguments":{"command":"true"},"requestState":"x.1.y","inputResponses":{}}}`, "requestState"},
	} {
		c.send(tt.line)
		if tt.want != "" {
			var head struct {
				ID json.RawMessage `json:"id"`
			}
			text := tt.line
			_ = json.Unmarshal([]byte(text), &head) // the tests with an answer are JSON
			if got := c.answerTo(string(head.ID)); !strings.Contains(got, tt.want) {
				t.Errorf("%s: %.300q, want %q", tt.name, got, tt.want)
			}
		}
		ping := fmt.Sprint(1000 + i)
		c.send(`{"jsonrpc":"2.0","id":` + ping + `,"method":"ping"}`)
		if got := c.answerTo(ping); !strings.Contains(got, `"result"`) {
			t.Errorf("after %s: %q", tt.name, got)
		}
	}
}

// A flood of one client is answered, as far as its account may ask, and others are served meanwhile.
func TestM14_AFloodOfOneClientStopsNobody(t *testing.T) {
	d := newDaemon(t, "")
	flood, other := d.rawMCP(t), d.mcpClient(t, mcpVersions[0], nil)
	const calls = 500
	go func() {
		for i := range calls {
			fmt.Fprintf(flood.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ListVars","arguments":{}}}`+"\n", i)
		}
	}()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for range calls {
			if _, err := flood.lines.ReadString('\n'); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for ended := false; !ended; {
		if _, err := other.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-answered:
			ended = true
		default:
		}
	}
	if r := mcpCall(t, other, "Bash", `{"command": "echo alive"}`); !strings.Contains(mcpText(r), "alive") {
		t.Errorf("afterwards: %s", mcpText(r))
	}
}

// post sends one message to POST /mcp.
func (d *running) post(t testing.TB, header http.Header, body string) (status int, head http.Header, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://sandboxd/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	maps.Copy(h, header)
	r.Host = h.Get("Host")
	res, err := d.socket(t, h).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
	`"clientInfo":{"name":"raw","version":"1"}}}`

// stateless is a request of the version without sessions, of a client that can show questions.
func stateless(id, name, more string) (http.Header, string) {
	return http.Header{
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {name},
	}, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`, id, name, more)
}

func TestM24_BadRequestsOverHTTP(t *testing.T) {
	d := newDaemon(t, "")
	status, head, text := d.post(t, nil, initialize)
	id := head.Get("Mcp-Session-Id")
	if status != http.StatusOK || id == "" {
		t.Fatalf("initialize: %d %s", status, text)
	}
	session := http.Header{"Mcp-Session-Id": {id}, "Mcp-Protocol-Version": {"2025-11-25"}}
	with := func(name, value string) http.Header {
		h := session.Clone()
		h.Set(name, value)
		return h
	}
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	for _, tt := range []struct {
		name   string
		header http.Header
		body   string
		want   int
	}{
		{"a ping", session, ping, http.StatusOK},
		{"no session", nil, ping, http.StatusNotFound},
		{"a session that there is not", with("Mcp-Session-Id", "x"), ping, http.StatusNotFound},
		{"no JSON", session, "hello", http.StatusBadRequest},
		{"nested deep", session, `{"jsonrpc":"2.0","id":3,"method":"ping","params":` + strings.Repeat(`{"a":`, 1000) + "1" +
			strings.Repeat("}", 1000) + "}", http.StatusBadRequest},
		{"9 MB", session, `{"a":"` + strings.Repeat("x", 9<<20) + `"}`, http.StatusRequestEntityTooLarge},
		{"another content type", with("Content-Type", "text/plain"), ping, http.StatusUnsupportedMediaType},
		{"from a page of the web", with("Origin", "https://evil.example"), ping, http.StatusForbidden},
		{"from a page whose name leads here", with("Host", "evil.example"), ping, http.StatusForbidden},
		{"an unknown version", with("Mcp-Protocol-Version", "1999-01-01"), ping, http.StatusBadRequest},
	} {
		status, _, text := d.post(t, tt.header, tt.body)
		if status != tt.want ||
			status == http.StatusNotFound && !strings.Contains(text, `"code":"mcp_session_not_found"`) {
			t.Errorf("%s: %d %.200s, want %d", tt.name, status, text, tt.want)
		}
	}
	var answer any
	if err := d.operator.Do(t.Context(), "POST", "/mcp", map[string]any{}, &answer); err == nil ||
		!strings.Contains(err.Error(), "MCP is for agents") {
		t.Errorf("on the operator socket: %v", err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://sandboxd/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := d.socket(t, session).RoundTrip(r)
	if err != nil || ended.StatusCode/100 != 2 {
		t.Fatalf("the end of the session: %+v, %v", ended, err)
	}
	ended.Body.Close()
	if status, _, text := d.post(t, session, ping); status != http.StatusNotFound {
		t.Errorf("a ping after the end: %d %s", status, text)
	}
	for i := range 40 { // more than one caller may have at once: those that are idle make room
		if status, _, text := d.post(t, nil, initialize); status != http.StatusOK {
			t.Fatalf("initialize %d: %d %s", i, status, text)
		}
	}
}

// A requestState is good once, for the call and the session that it was made for.
func TestM24_ARequestStateIsGoodOnce(t *testing.T) {
	d := newDaemon(t, "")
	const args = `"arguments":{"command":"git push --force origin state; echo after the push"}`
	h, body := stateless("1", "Bash", args)
	_, _, text := d.post(t, h, body)
	_, text, ok := strings.Cut(text, "data: ")
	var asked struct {
		Result struct {
			RequestState  string                     `json:"requestState"`
			InputRequests map[string]json.RawMessage `json:"inputRequests"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &asked); !ok || err != nil || asked.Result.RequestState == "" {
		t.Fatalf("no requestState: %v %s", err, text)
	}
	state := asked.Result.RequestState
	answers := `"inputResponses":{`
	for id := range asked.Result.InputRequests {
		answers += fmt.Sprintf(`%q:{"action":"accept"}`, id)
	}
	answers += "}"
	with := func(args, state string) string { return fmt.Sprintf(`%s,%s,"requestState":%q`, args, answers, state) }
	refused := func(name, session, more string) {
		t.Helper()
		h, body := stateless("2", "Bash", more)
		if session != "" {
			h.Set("Sandboxd-Session", session)
		}
		if _, _, text := d.post(t, h, body); !strings.Contains(text, "requestState") || !strings.Contains(text, `"isError":true`) {
			t.Errorf("%s: %s", name, text)
		}
	}
	refused("for another call", "", with(`"arguments":{"command":"echo other"}`, state))
	refused("in another session", d.session(), with(args, state))
	refused("made up", "", with(args, state+"x"))
	d.settle(true)
	h, body = stateless("3", "Bash", with(args, state))
	if _, _, text := d.post(t, h, body); !strings.Contains(text, "after the push") {
		t.Errorf("with the requestState: %s", text)
	}
	refused("a second time", "", with(args, state))
}

// A session of MCP is its caller's alone: another account's id is as one that there is not.
func TestM24_AnotherAccountsSessionIsUnknown(t *testing.T) {
	d := newShared(t, "accounts:\n  others: own\n")
	post := func(uid int, id, body string) (int, http.Header) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://sandboxd/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {id},
		}
		res, err := d.as(uid).http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode, res.Header
	}
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	status, head := post(alice, "", initialize)
	id := head.Get("Mcp-Session-Id")
	if status != http.StatusOK || id == "" {
		t.Fatalf("initialize: %d", status)
	}
	for uid, want := range map[int]int{alice: http.StatusOK, bob: http.StatusNotFound} {
		if status, _ := post(uid, id, ping); status != want {
			t.Errorf("uid %d: %d, want %d", uid, status, want)
		}
	}
}
