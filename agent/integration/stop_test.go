package integration

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// alive are the processes of agents that a daemon started for sub-agents of this model.
func alive(t *testing.T, m *Model) (all []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		if line, err := os.ReadFile(name); err == nil && strings.Contains(string(line), m.URL) && strings.Contains(string(line), "spawn") {
			all = append(all, name)
		}
	}
	return all
}

// A sub-agent that works in the background ends with TaskStop, wherever it is: while its model is
// silent, and within a call.
func TestTaskStopEndsTheAgent(t *testing.T) {
	both(t, func(t *testing.T, provider string) {
		gone := make(chan struct{}, 1)
		silent := Step{Serve: func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			gone <- struct{}{}
		}}
		m := NewModel(t, silent, Step{Text: "I wait", Calls: []Call{bash("a", "touch here; sleep 1000")}})
		d := spawning(t, m, provider)
		parent := d.session(t)
		stop := func(job string) {
			args, _ := json.Marshal(map[string]string{"task_id": job})
			if r, err := d.Agent.Call(t.Context(), parent, "TaskStop", args); err != nil || r.Status != client.StatusSuccess {
				t.Errorf("TaskStop: %+v, %v", r, err)
			}
		}
		start := func() string {
			r, err := d.Agent.Call(t.Context(), parent, "Agent", json.RawMessage(
				`{"prompt": "wait", "description": "waits", "run_in_background": true}`))
			data, _ := r.Data.(map[string]any)
			job, _ := data["job_id"].(string)
			if err != nil || job == "" {
				t.Fatalf("%+v, %v\n%s", r, err, d.Log)
			}
			return job
		}
		job := start()
		d.Eventually("the model is asked", func() bool { return len(m.Asked()) == 1 })
		stop(job)
		<-gone
		d.Eventually("the agent is gone", func() bool { return len(alive(t, m)) == 0 })

		job = start()
		d.Eventually("its call runs", func() bool { return os.Remove(filepath.Join(d.Workspace, "here")) == nil })
		if len(alive(t, m)) == 0 {
			t.Fatal("no agent is seen while one works")
		}
		stop(job)
		d.Eventually("the agent and its call are gone", func() bool {
			var running []any
			return len(alive(t, m)) == 0 && d.Agent.Do(t.Context(), "GET", "/calls", nil, &running) == nil && len(running) == 0
		})
		if len(m.Asked()) != 2 {
			t.Errorf("the model is asked %d times", len(m.Asked()))
		}
	})
}

// A sub-agent that the daemon ends leaves a conversation that can go on.
func TestL17_SpawnIsEnded(t *testing.T) {
	d := NewDaemon(t, bin, "")
	session := d.session(t)
	m := NewModel(t, Step{Text: "I wait", Calls: []Call{bash("a", "touch here; sleep 1000"), bash("b", "touch ran")}}, Step{Text: "on"})
	r := d.Command(m, "spawn")
	r.Stdin = strings.NewReader(order(d, session, "wait", ""))
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	d.Eventually("its call runs", func() bool { return os.Remove(filepath.Join(d.Workspace, "here")) == nil })
	r.Process.Signal(syscall.SIGTERM)
	r.Wait()
	if code := r.ProcessState.ExitCode(); code != 1 || r.Out.String() != "" || !strings.Contains(r.Err.String(), "the sub-agent was cancelled") {
		t.Errorf("exit %d: %s\n%s", code, r.Out, r.Err)
	}
	r = d.Command(m, "spawn")
	r.Stdin = strings.NewReader(order(d, session, "on", ""))
	if code := r.Finish(); code != 0 || !strings.Contains(r.Out.String(), `"text":"on"`) {
		t.Errorf("exit %d: %s\n%s", code, r.Out, r.Err)
	}
	for _, want := range []string{"cancelled while it ran", "did not run: the user interrupted"} {
		if raw := m.Asked()[1].Raw; !strings.Contains(raw, want) {
			t.Errorf("%q is not in %s", want, raw)
		}
	}
	if _, err := os.Stat(filepath.Join(d.Workspace, "ran")); err == nil {
		t.Error("the second call ran")
	}
}

// Whatever stands on stdin: no request, no output, one error, no panic.
func TestSpawnRefusesHostileJSON(t *testing.T) {
	d := NewDaemon(t, bin, "")
	good := order(d, d.session(t), "p", "")
	with := func(field, value string) string {
		return strings.TrimSuffix(good, "}") + `, "` + field + `": ` + value + "}"
	}
	for name, tt := range map[string]struct {
		in   string
		exit int
	}{
		"a million levels":              {strings.Repeat(`{"x":`, 1e6), 2},
		"a million levels in a field":   {with("cwd", strings.Repeat("[", 1e6)+strings.Repeat("]", 1e6)), 2},
		"17 MiB":                        {with("prompt", `"`+strings.Repeat("x", 17<<20)+`"`), 2},
		"bytes":                         {strings.Repeat("\x00\xff", 1000), 2},
		"a cut order":                   {good[:len(good)-10], 2},
		"no number of turns":            {with("max_turns", "1e400"), 2},
		"turns that are a text":         {with("max_turns", `"7"`), 2},
		"turns below 0":                 {with("max_turns", "-9223372036854775808"), 2},
		"a session that is a path":      {with("session_id", `"../../status"`), 1},
		"a session with a query":        {with("session_id", `"x?y=1#z"`), 1},
		"a session of controls":         {with("session_id", `"\r\nGET / HTTP/1.1\r\n\u0000"`), 1},
		"a socket that is a file":       {with("socket", `"/etc/passwd"`), 1},
		"a socket that is a directory":  {with("socket", `"/"`), 1},
		"a socket with a zero byte":     {with("socket", `"/a\u0000b"`), 1},
		"a socket with a long name":     {with("socket", `"/`+strings.Repeat("x", 5000)+`"`), 1},
		"a socket that is on a network": {with("socket", `"127.0.0.1:80"`), 2},
		"a prompt of a list":            {with("prompt", `["p"]`), 2},
		"a prompt of spaces":            {with("prompt", `" \n\t"`), 2},
		"null for what it needs":        {with("session_id", `null, "session_id": null, "prompt": null, "prompt": ""`), 2},
	} {
		m := NewModel(t)
		r := d.Command(m, "spawn")
		r.Stdin = strings.NewReader(tt.in)
		code := r.Finish()
		said := r.Err.String()
		if code != tt.exit || r.Out.String() != "" || len(m.Asked()) > 0 || strings.Count(said, "error:") != 1 ||
			strings.Contains(said, "goroutine") || len(said) > 8000 {
			t.Errorf("%s: exit %d, %d requests, %s%.2000s", name, code, len(m.Asked()), r.Out, said)
		}
	}
}
