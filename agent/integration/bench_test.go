package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/agent/host"
	"github.com/sandboxd/sandboxd/agent/loop"
	"github.com/sandboxd/sandboxd/agent/provider"
	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/bench"
)

// inProcess is an agent in this process.
func inProcess(b testing.TB, daemon *client.Client, dir string, m *Model, format string) *loop.Agent {
	b.Helper()
	c, err := provider.New(provider.Server{Provider: format, BaseURL: m.URL, Key: "k"})
	if err != nil {
		b.Fatal(err)
	}
	s, err := host.Open(context.Background(), daemon, host.Choice{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	a, err := loop.New(daemon, s, loop.Options{
		Asker: provider.Asker{Client: c}, Model: "claude-sonnet-4-6", MaxTokens: 1000, MaxTurns: 1000, Window: 1e9,
	})
	if err != nil {
		b.Fatal(err)
	}
	return a
}

func BenchmarkAgentVersion(b *testing.B) {
	bare := filepath.Join(bin, "bare")
	source := filepath.Join(bin, "bare.go")
	text := "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"bare\") }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", bare, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	run := func(name string) func() {
		return func() {
			if err := exec.Command(filepath.Join(bin, name), "--version").Run(); err != nil {
				b.Fatal(err)
			}
		}
	}
	bench.Compare(b, []bench.Case{{Name: "bare", Run: run("bare")}, {Name: "version", Run: run("sandboxd-agent")}},
		bench.Limit{Case: "version", Over: "bare", AtMost: 2})
}

// A loop over a scripted model, beside the calls alone.
func BenchmarkAgentLoop(b *testing.B) {
	d := NewDaemon(b, bin, "")
	const calls = 5
	args := json.RawMessage(`{"command":"sleep 0.2"}`)
	session := d.session(b)
	alone := func() {
		for range calls {
			if r, err := d.Agent.Call(context.Background(), session, "Bash", args); err != nil || r.Status != "SUCCESS" {
				b.Fatal(r.FinalText, err)
			}
		}
	}
	step := 0
	m := NewModel(b)
	m.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if step++; step%(calls+1) == 0 {
			fmt.Fprint(w, Step{Text: "done", In: 1, Out: 1}.Anthropic())
			return
		}
		fmt.Fprint(w, Step{Text: "I wait", In: 1, Out: 1, Calls: []Call{{"t", "Bash", string(args)}}}.Anthropic())
	})
	a := inProcess(b, d.Agent, d.Workspace, m, "anthropic")
	looped := func() {
		if r := a.Prompt(context.Background(), "go", nil); r.Subtype != loop.Success || r.Turns != calls+1 {
			b.Fatalf("%+v", r)
		}
	}
	alone()
	looped()
	bench.Compare(b, []bench.Case{{Name: "calls", Run: alone}, {Name: "loop", Run: looped}},
		bench.Limit{Case: "loop", Over: "calls", AtMost: 1.1})
}

// From the last byte of an answer to the first byte of the request of its call.
func BenchmarkAgentAnswerToCall(b *testing.B) {
	d := NewDaemon(b, bin, "")
	var sent time.Time
	var took []time.Duration
	answers := 0
	m := NewModel(b)
	m.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		step := Step{Text: "I look", In: 1, Out: 1, Calls: []Call{{"t", "Glob", `{"pattern":"*"}`}}}
		if answers++; answers > 200 {
			step.Calls = nil
		}
		fmt.Fprint(w, step.Anthropic())
		w.(http.Flusher).Flush()
		sent = time.Now()
	})
	socket := between(b, d, func() { took = append(took, time.Since(sent)) })
	a := inProcess(b, client.New(socket), d.Workspace, m, "anthropic")
	if r := a.Prompt(context.Background(), "go", nil); r.Subtype != loop.Success {
		b.Fatalf("%+v", r)
	}
	slices.Sort(took)
	bench.Value(b, "answer to call", float64(took[len(took)/2].Microseconds())/1000, "ms", 1)
}

// between is a socket in front of the daemon's; called is told when a call comes.
func between(b *testing.B, d *Daemon, called func()) (socket string) {
	b.Helper()
	real := filepath.Join(d.Work, "run/a.sock")
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), // the agent leaves behind the result
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "daemon" },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", real)
		}},
	}
	socket = filepath.Join(d.Work, "run/between.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		b.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/calls") {
			called()
		}
		proxy.ServeHTTP(w, r)
	})}
	b.Cleanup(func() { s.Close() })
	go s.Serve(l)
	return socket
}

// An agent with one core reads a stream and writes what it reads as JSON.
func BenchmarkAgentTokens(b *testing.B) {
	const tokens = 50_000
	for _, format := range formats {
		b.Run(format, func(b *testing.B) {
			d := NewDaemon(b, bin, "")
			step := Step{Text: strings.Repeat("token", tokens), In: 1, Out: tokens}
			text := step.Anthropic()
			if format == "openai" {
				text = step.OpenAI()
			}
			least := time.Hour
			for range 3 {
				m := NewModel(b)
				m.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprint(w, text)
				})
				r := d.Command(m, "--provider", format, "--json", "go")
				r.Env = append(r.Env, "GOMAXPROCS=1")
				began := time.Now()
				if code := r.Finish(); code != 0 {
					b.Fatal(r.Err)
				}
				least = min(least, time.Since(began))
				if n := strings.Count(r.Out.String(), `"partialMessage"`); n != tokens {
					b.Fatalf("%d tokens", n)
				}
			}
			bench.Value(b, "50,000 tokens", least.Seconds(), "s", 1)
		})
	}
}
