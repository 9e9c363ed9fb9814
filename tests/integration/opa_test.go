package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/permission"
	"github.com/sandboxd/sandboxd/tests/bench"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// findOPA gives the program of OPA: SANDBOXD_OPA, or one in PATH.
func findOPA() string {
	if p := os.Getenv("SANDBOXD_OPA"); p != "" {
		return p
	}
	p, _ := exec.LookPath("opa") // "" is none
	return p
}

func export(t testing.TB, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rego")
	output(t, "", filepath.Join(bin, "sandboxd"), append([]string{"policy", "export", dir}, args...)...)
	return dir
}

func output(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestOPAWorksUnchanged runs the commands of docs/policies.md, as they stand there,
// over the library and a new policy.
func TestOPAWorksUnchanged(t *testing.T) {
	opa := findOPA()
	if opa == "" {
		needs.Missing(t, "opa is not installed; make bin/opa builds it, SANDBOXD_OPA names it")
	}
	page, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "## OPA, editors and CI\n")
	_, rest, _ = strings.Cut(rest, "\n```\n")
	block, _, found := strings.Cut(rest, "```")
	if !found || strings.Count(block, "opa ") < 4 {
		t.Fatalf("the page has the commands %q", block)
	}
	work := t.TempDir()
	sandboxd := filepath.Join(bin, "sandboxd")
	output(t, work, sandboxd, "policy", "init", "policies", "--owner", "acme")
	var explained struct{ Input json.RawMessage }
	text := output(t, work, sandboxd, "policy", "explain", "--json", "-c", "git push --force origin main")
	if err := json.Unmarshal([]byte(text), &explained); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "input.json"), explained.Input, 0o600); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(block) {
		words := strings.Fields(line)
		t.Run(strings.Join(words[:2], " "), func(t *testing.T) {
			program := sandboxd
			if words[0] == "opa" {
				program = opa
			}
			out := output(t, work, program, words[1:]...)
			switch words[1] {
			case "test":
				if !strings.Contains(out, "PASS: ") || strings.Contains(out, "FAIL") {
					t.Error(out)
				}
			case "fmt":
				if out != "" {
					t.Errorf("opa would format %s", out)
				}
			case "eval":
				if !strings.Contains(out, `"developer.`) || !strings.Contains(out, `"effect": "ask"`) {
					t.Errorf("the findings are %s", out)
				}
			}
		})
	}
	if out := output(t, work, opa, "fmt", "--list", "--fail", "rego/library"); out != "" {
		t.Errorf("opa would format %s", out)
	}
}

// unixClient keeps connections to a socket.
func unixClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
}

func post(t testing.TB, c *http.Client, path string, body []byte) []byte {
	res, err := c.Post("http://x"+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		t.Fatalf("%s: %s %s %v", path, res.Status, out, err)
	}
	return out
}

// started runs a server until the benchmark ends, and waits for its socket.
func started(b *testing.B, socket string, cmd *exec.Cmd) *http.Client {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if !waitFor(func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	}) {
		b.Fatalf("%v does not answer", cmd.Args)
	}
	return unixClient(socket)
}

// installOPA builds the version of OPA that go.mod names.
func installOPA(b *testing.B) string {
	if opa := findOPA(); opa != "" {
		return opa
	}
	version := strings.TrimSpace(output(b, "", "go", "list", "-m", "-f", "{{.Version}}",
		"github.com/open-policy-agent/opa"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir := b.TempDir()
	cmd := exec.CommandContext(ctx, "go", "install", "github.com/open-policy-agent/opa@"+version)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		needs.Missing(b, "opa %s cannot be built here: %v\n%s", version, err, out)
	}
	return filepath.Join(dir, "opa")
}

// judgeSocket, in the environment, makes this program serve the judge alone.
const judgeSocket = "SANDBOXD_BENCH_JUDGE"

// judgeRules are the same for all that is compared.
func judgeRules() permission.Rules {
	var r permission.Rules
	for i := range 200 {
		r.Deny = append(r.Deny, fmt.Sprintf("Bash(tool%d sub *)", i))
	}
	return r
}

// serveJudge answers {"command"} with the decision of package policy: facts from
// the text, rules, mode. It is what opa run --server is beside: no session, no
// record, no sandbox settings.
func serveJudge(socket string) {
	debug.SetGCPercent(300) // as the daemon sets it
	e, err := policy.New(context.Background(), policy.Options{Rules: judgeRules()})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Command string `json:"command"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c, err := judgedCall(in.Command)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		d, err := e.Decide(r.Context(), c)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"data": d}) // the client is gone
	})))
}

// judgedCall is a call of Bash with its facts, in /src of a user.
func judgedCall(line string) (*tool.Call, error) {
	args, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		return nil, err
	}
	bash := tools.Bash{}
	in := tool.In{Session: "s", Dir: "/src", Home: "/home/u", Args: args}
	uses, err := bash.Uses(context.Background(), in)
	spec := bash.Spec()
	return &tool.Call{
		Target: tool.Target{
			Spec:    spec,
			Session: tool.Session{ID: "s", Account: "a", Dir: in.Dir, Home: in.Home, Mode: tool.ModeAuto},
		},
		In:        in,
		Judgement: tool.Judgement{Facts: tool.Facts{Class: spec.Class, Mode: tool.ModeAuto, Uses: uses}},
	}, err
}

// BenchmarkOverSocket is a judged request over a Unix socket: by the judge alone,
// which derives the facts from the text; by opa run --server with the same rules,
// which is given the facts ready made; and by the whole daemon, which also finds
// the session, looks at the sandbox settings and records.
func BenchmarkOverSocket(b *testing.B) {
	opa := installOPA(b)
	dir, err := os.MkdirTemp("/var/tmp", "sandboxd-test-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	for _, sub := range []string{"work", "run"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			b.Fatal(err)
		}
	}
	var rules, flags []string
	for _, r := range judgeRules().Deny {
		rules = append(rules, fmt.Sprintf("%q", r))
		flags = append(flags, "--deny", r)
	}
	config := filepath.Join(dir, "config.yaml")
	text := "api: {perSecond: 1000000}\npolicy: {rules: {deny: [" + strings.Join(rules, ", ") +
		"]}}\nworkspace: {roots: [" + dir + "/work]}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	ours := filepath.Join(dir, "run", "agent.sock")
	daemon := exec.Command(filepath.Join(bin, "sandboxd"), "serve")
	daemon.Dir = dir + "/work"
	daemon.Env = append(os.Environ(), "SANDBOXD_CONFIG="+config, "SANDBOXD_STATE_DIR="+dir+"/state",
		"XDG_CONFIG_HOME="+dir+"/config",
		"SANDBOXD_SOCKET="+ours, "SANDBOXD_OPERATOR_SOCKET="+filepath.Join(dir, "run", "operator.sock"))
	us := started(b, ours, daemon)

	rego, theirs := export(b, flags...), filepath.Join(dir, "run", "opa.sock")
	server := exec.Command(opa, "run", "--server", "--addr", "unix://"+theirs, "--log-level", "error",
		rego+"/library", rego+"/data.json", rego+"/judge.rego")
	them := started(b, theirs, server)

	alone := filepath.Join(dir, "run", "judge.sock")
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	judge := exec.Command(exe)
	judge.Env = append(os.Environ(), judgeSocket+"="+alone)
	engine := started(b, alone, judge)

	var session struct {
		Data struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(post(b, us, "/sessions", []byte(`{}`)), &session); err != nil {
		b.Fatal(err)
	}
	call := []byte(`{"session_id":"` + session.Data.ID +
		`","tool":"Bash","args":{"command":"go test ./... | tail -5"}}`)
	var judged struct {
		Data struct {
			Facts json.RawMessage `json:"facts"`
		} `json:"data"`
	}
	if err := json.Unmarshal(post(b, us, "/decide", call), &judged); err != nil || judged.Data.Facts == nil {
		b.Fatalf("no facts: %v", err)
	}
	line := []byte(`{"command":"go test ./... | tail -5"}`)
	if out := string(post(b, engine, "/", line)); !strings.Contains(out, `"verdict":"ask"`) {
		b.Fatalf("the judge alone said %s, want the question of the mode", out)
	}
	question := []byte(`{"input":` + string(judged.Data.Facts) + `}`)
	if out := string(post(b, them, "/v1/data/sandboxd/judge/findings", question)); !strings.Contains(out, `"result":[[]`) {
		b.Fatalf("opa found %s, want one empty set per package", out)
	}
	// 20 requests in a row: of a single one, most is the waking of a server that slept
	// while the others were asked.
	asking := func(c *http.Client, path string, body []byte) func() {
		return func() {
			for range 20 {
				post(b, c, path, body)
			}
		}
	}
	bench.Compare(b, []bench.Case{
		{Name: "opa run --server", Run: asking(them, "/v1/data/sandboxd/judge/findings", question)},
		{Name: "judge alone", Run: asking(engine, "/", line)},
		{Name: "whole daemon", Run: asking(us, "/decide", call)},
	},
		bench.Limit{Case: "judge alone", Over: "opa run --server", AtMost: 0.45},
		bench.Limit{Case: "whole daemon", Over: "opa run --server"})
}
