package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
)

const portToken = "an-integration-test-token-of-44-characters=="

// newPort is a daemon with mcp.listen. change says what becomes of it before it starts.
func newPort(t testing.TB, more string, change func(d *running, token string)) (d *running, url string) {
	t.Helper()
	d = newPlaces(t, "{}")
	token := filepath.Join(d.work, "token")
	d.write("token", portToken+"\n")
	d.write("config.yaml", "mcp: {listen: '127.0.0.1:0', tokenFile: "+token+"}\n"+more)
	if change != nil {
		change(d, token)
	}
	d.start()
	var said struct {
		Parts struct {
			MCP struct{ URL string }
		}
	}
	if err := d.operator.Do(t.Context(), "GET", "/status", nil, &said); err != nil || said.Parts.MCP.URL == "" {
		t.Fatalf("no url in the status: %+v %v", said, err)
	}
	return d, said.Parts.MCP.URL
}

// byPort is a client of the SDK at a port.
func byPort(t testing.TB, url, token, version string) (*mcp.ClientSession, error) {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	header := http.Header{"Authorization": {"Bearer " + token}}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(),
		&mcp.StreamableClientTransport{
			Endpoint: url, HTTPClient: &http.Client{Transport: withHeader{transport, header}}, MaxRetries: -1,
		}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

func TestM24_AClientAtAPortIsJudgedLikeTheOwnerOfTheToken(t *testing.T) {
	d, url := newPort(t, "", nil)
	for _, version := range mcpVersions {
		s, err := byPort(t, url, portToken, version)
		if err != nil {
			t.Fatalf("%s: %v\n%s", version, err, d.log)
		}
		if r := mcpCall(t, s, "Bash", `{"command":"echo at the port"}`); r.IsError || !strings.Contains(mcpText(r), "at the port") {
			t.Errorf("%s: %s", version, mcpText(r))
		}
		if r := mcpCall(t, s, "Read", fmt.Sprintf(`{"file_path":%q}`, d.home+"/.ssh/id_rsa")); !r.IsError {
			t.Errorf("%s: a key is read: %s", version, mcpText(r))
		}
		// The token would let in whoever reads it.
		for _, c := range []struct{ tool, args string }{
			{"Read", fmt.Sprintf(`{"file_path":%q}`, d.work+"/token")}, {"Bash", fmt.Sprintf(`{"command":"cat %s/token"}`, d.work)},
		} {
			if r := mcpCall(t, s, c.tool, c.args); strings.Contains(mcpText(r), portToken) || !r.IsError {
				t.Errorf("%s: %s reads the token: %s", version, c.tool, mcpText(r))
			}
		}
	}
	var all []client.Session
	if err := d.agent.Do(t.Context(), "GET", "/sessions", nil, &all); err != nil || len(all) == 0 {
		t.Errorf("the sessions are %+v, %v: want those of the port", all, err)
	}
}

func TestM24_APortRefusesWhoHasNoToken(t *testing.T) {
	d, url := newPort(t, "", nil)
	for _, tt := range []struct {
		name, path, token, body string
		header                  http.Header
		want                    int
	}{
		{"the token", "/mcp", portToken, initialize, nil, 200},
		{"another", "/mcp", portToken + "x", initialize, nil, 401},
		{"none", "/mcp", "", initialize, nil, 401},
		{"another route", "/v1/sessions", portToken, `{}`, nil, 404},
		{"a page", "/mcp", portToken, initialize, http.Header{"Origin": {"https://evil.example"}}, 403},
		{"a name that leads here", "/mcp", portToken, initialize, http.Header{"Host": {"evil.example"}}, 421},
		{"a body of 9 MB", "/mcp", portToken, `{"a":"` + strings.Repeat("x", 9<<20) + `"}`, nil, 413},
		{"no JSON", "/mcp", portToken, "hello", nil, 404}, // it begins no session, and has none
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", strings.TrimSuffix(url, "/mcp")+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		for name, values := range tt.header {
			r.Header[name] = values
		}
		r.Host = r.Header.Get("Host")
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+tt.token)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		res.Body.Close()
		if res.StatusCode != tt.want {
			t.Errorf("%s: %s, want %d", tt.name, res.Status, tt.want)
		}
	}
	if err := os.Remove(d.work + "/token"); err != nil {
		t.Fatal(err)
	}
	if _, err := byPort(t, url, portToken, mcpVersions[0]); err == nil {
		t.Error("the token is taken when its file is gone")
	}
}

// Whoever owns the file is who calls: another account, with that user's rights.
func TestM24_ATokenOfAnotherUserHasThatUsersRights(t *testing.T) {
	newShared(t, "") // needs root
	u, err := user.LookupId("1")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	give := func(d *running, token string) {
		if err := os.Chown(token, uid, 0); err != nil {
			t.Fatal(err)
		}
	}
	d, url := newPort(t, "accounts: {others: own}\n", give)
	d.share()
	s, err := byPort(t, url, portToken, mcpVersions[0])
	if err != nil {
		t.Fatalf("%v\n%s", err, d.log)
	}
	if r := mcpCall(t, s, "Bash", `{"command":"id -u; id -G"}`); !strings.HasPrefix(mcpText(r), "1\n"+u.Gid+"\n") {
		t.Errorf("it runs as %q", mcpText(r))
	}
	var all []client.Session
	if err := d.agent.Do(t.Context(), "GET", "/sessions", nil, &all); err != nil || len(all) != 0 {
		t.Errorf("root has the sessions %+v, %v", all, err)
	}
	if a := d.as(uid).ask("GET", "/sessions", ""); !strings.Contains(a.Raw, `"id":"ses_`) {
		t.Errorf("on the socket uid 1 has the sessions %s", a.Raw)
	}
	_, url = newPort(t, "accounts: {others: refuse}\n", give)
	if _, err := byPort(t, url, portToken, mcpVersions[0]); err == nil {
		t.Error("a user who has no account is let in")
	}
}

func TestM24_APortThatIsNotSafeKeepsTheDaemonFromStarting(t *testing.T) {
	d := newPlaces(t, "{}")
	token := filepath.Join(d.work, "token")
	d.write("token", portToken)
	for _, tt := range []struct{ section, want string }{
		{"{listen: '127.0.0.1:0'}", "mcp.listen needs mcp.tokenFile"},
		{"{tokenFile: " + token + "}", "does nothing without mcp.listen"},
		{"{listen: '0.0.0.0:0', tokenFile: " + token + "}", "no address of the loopback"},
		{"{listen: '127.0.0.1:0', tokenFile: token}", "relative"},
		{"{listen: '127.0.0.1:0', tokenFile: " + filepath.Join(d.ws, "token") + "}", "which agents can write"},
		{"{listen: '127.0.0.1:0', tokenFile: " + token + "}", "others can read"},
	} {
		d.write("config.yaml", "mcp: "+tt.section+"\n")
		if err := os.Chmod(token, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "sandboxd"), "serve")
		cmd.Dir, cmd.Env = d.ws, d.env
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: %v %s, want %q", tt.section, err, out, tt.want)
		}
	}
}

func TestM24_AnotherPortNeedsARestart(t *testing.T) {
	d, url := newPort(t, "", nil)
	d.write("config.yaml", "{}\n")
	err := d.operator.Do(t.Context(), "POST", "/reload", nil, nil)
	if err == nil || !strings.Contains(err.Error(), "mcp.listen") {
		t.Errorf("a reload without the port: %v", err)
	}
	if _, err := byPort(t, url, portToken, mcpVersions[0]); err != nil {
		t.Errorf("after the refused reload: %v", err)
	}
}
