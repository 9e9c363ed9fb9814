package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// claudeProgram is the variable with the path of the real client; make
// test-clients sets it. claudeInside says that this process has no network.
const (
	claudeProgram = "SANDBOXD_TEST_CLAUDE"
	claudeInside  = "SANDBOXD_TEST_NO_NETWORK"
)

// TestClaudeCode drives the real client, offline: its API is scripted here, on a
// loopback that is all the network it has. Its hook is the one that sandboxd hook
// install writes.
func TestClaudeCode(t *testing.T) {
	claude := os.Getenv(claudeProgram)
	if claude == "" {
		t.Skip("make test-clients runs it, with the client installed")
	}
	if os.Getenv(claudeInside) == "" {
		withoutNetwork(t)
		return
	}
	loopback(t)
	d := newDaemon(t, "hooks:\n  preToolUse:\n    - name: rewrite\n      command: |\n"+
		"        case $(cat) in *'rewrite me'*) echo '{\"updatedInput\": {\"command\": \"echo what the hook wrote\"}}' ;; esac\n")
	if out, err := d.exec("sandboxd", "hook", "install", "claude-code", "--write"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.write("ws/escape.sh", "echo x > ~/escaped; echo escape $?\n")
	if out, err := d.exec("git", "init", "-q"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, tt := range []struct {
		name, tool string
		input      map[string]any
		answer     map[string]any // of the person who is asked
		want       string         // in what the model reads
		not        string
	}{
		{name: "allowed, in the cage", tool: "Bash", input: map[string]any{"command": "sh escape.sh; echo ran in $(pwd)"}, want: "ran in " + d.ws, not: "escape 0"},
		{name: "denied", tool: "Bash", input: map[string]any{"command": "cat ~/.ssh/id_rsa"}, want: "deniedPaths", not: "PLANTED"},
		{name: "denied, a file tool", tool: "Read", input: map[string]any{"file_path": d.home + "/.ssh/id_rsa"}, want: "deniedPaths", not: "PLANTED"},
		{name: "rewritten", tool: "Bash", input: map[string]any{"command": "echo rewrite me"}, want: "what the hook wrote", not: "rewrite me"},
		{
			name: "asked, and approved", tool: "Bash", input: map[string]any{"command": "git push --force origin main; echo after the push"},
			answer: map[string]any{"approved": true}, want: "after the push",
		},
		{
			name: "asked, and edited", tool: "Bash", input: map[string]any{"command": "git push --force origin other; echo after the push"},
			answer: map[string]any{"approved": true, "args": map[string]any{"command": "echo a person wrote this"}}, want: "a person wrote this", not: "after the push",
		},
		{
			name: "asked, and refused", tool: "Bash", input: map[string]any{"command": "git push --force origin third; echo after the push"},
			answer: map[string]any{"approved": false, "reason": "use a branch"}, want: "use a branch", not: "after the push",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			model := &scripted{t: t, tool: tt.tool, input: tt.input}
			api := httptest.NewServer(model)
			defer api.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if tt.answer != nil {
				var person sync.WaitGroup
				defer person.Wait()
				person.Go(func() { d.answerOne(ctx, t, tt.answer) })
			}
			cmd := exec.CommandContext(ctx, claude, "-p", "do it")
			cmd.Dir = d.ws
			cmd.Env = append(slices.Clone(d.env), "ANTHROPIC_BASE_URL="+api.URL, "ANTHROPIC_API_KEY=none",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			got := model.read()
			if len(got) != 1 || !strings.Contains(got[0], tt.want) || tt.not != "" && strings.Contains(got[0], tt.not) {
				t.Errorf("the model read %q, want %q and not %q; the client said %s", got, tt.want, tt.not, out)
			}
		})
	}
	if _, err := os.Stat(d.home + "/escaped"); err == nil {
		t.Error("a command wrote outside of the workspace")
	}
}

// withoutNetwork runs this test again in a network namespace of its own.
func withoutNetwork(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClaudeCode$", "-test.v")
	cmd.Env = append(os.Environ(), claudeInside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// loopback switches on the only interface there is.
func loopback(t *testing.T) {
	interfaces, err := net.Interfaces()
	if err != nil || len(interfaces) != 1 || interfaces[0].Name != "lo" {
		t.Fatalf("there is more than a loopback: %v, %v", interfaces, err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		t.Fatal(err)
	}
}

// exec runs a program as somebody who uses this daemon.
func (d *running) exec(name string, args ...string) (string, error) {
	if name == "sandboxd" {
		name = filepath.Join(bin, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = d.ws, d.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// answerOne is a person who answers the next question.
func (d *running) answerOne(ctx context.Context, t *testing.T, answer map[string]any) {
	var waiting []struct {
		ID string `json:"id"`
	}
	waitFor(time.Minute, func() bool {
		return ctx.Err() != nil || d.operator.Do(ctx, http.MethodGet, "/approvals", nil, &waiting) == nil && len(waiting) > 0
	})
	if len(waiting) != 1 {
		t.Errorf("%d questions wait, want one", len(waiting))
		return
	}
	if err := d.operator.Do(ctx, http.MethodPost, "/approvals/"+waiting[0].ID, answer, nil); err != nil {
		t.Error(err)
	}
}

// scripted is a Messages API whose model calls one tool, and says that it is done
// when it has read the result.
type scripted struct {
	t     *testing.T
	tool  string
	input map[string]any

	mu      sync.Mutex // guards results
	results []string
}

func (s *scripted) read() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Stream bool `json:"stream"`
		Tools  []struct {
			Name string `json:"name"`
		} `json:"tools"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/messages") || json.NewDecoder(r.Body).Decode(&in) != nil {
		http.NotFound(w, r)
		return
	}
	main := slices.ContainsFunc(in.Tools, func(t struct {
		Name string `json:"name"`
	},
	) bool {
		return t.Name == s.tool
	})
	var results []string
	for _, m := range in.Messages {
		var blocks []struct {
			Type    string          `json:"type"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(m.Content, &blocks) != nil {
			continue // plain text
		}
		for _, b := range blocks {
			if b.Type == "tool_result" {
				results = append(results, string(b.Content))
			}
		}
	}
	block := map[string]any{"type": "text", "text": ""}
	delta := map[string]any{"type": "text_delta", "text": "done"}
	stop := "end_turn"
	if main && len(results) == 0 {
		input, err := json.Marshal(s.input)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		block = map[string]any{"type": "tool_use", "id": "toolu_1", "name": s.tool, "input": map[string]any{}}
		delta = map[string]any{"type": "input_json_delta", "partial_json": string(input)}
		stop = "tool_use"
	} else if main {
		s.mu.Lock()
		s.results = results
		s.mu.Unlock()
	}
	usage := map[string]any{"input_tokens": 1, "output_tokens": 1}
	message := map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}
	if !in.Stream {
		message["content"], message["stop_reason"] = []any{map[string]any{"type": "text", "text": "done"}}, "end_turn"
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(message); err != nil {
			panic(http.ErrAbortHandler)
		}
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	var body bytes.Buffer
	for _, e := range []map[string]any{
		{"type": "message_start", "message": message},
		{"type": "content_block_start", "index": 0, "content_block": block},
		{"type": "content_block_delta", "index": 0, "delta": delta},
		{"type": "content_block_stop", "index": 0},
		{"type": "message_delta", "delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": usage},
		{"type": "message_stop"},
	} {
		data, err := json.Marshal(e)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(&body, "event: %s\ndata: %s\n\n", e["type"], data)
	}
	if _, err := w.Write(body.Bytes()); err != nil {
		panic(http.ErrAbortHandler)
	}
}
