package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// spawning is a daemon whose spawner is the agent, with a model there.
func spawning(t *testing.T, m *Model, provider string) *Daemon {
	t.Helper()
	d := NewDaemon(t, bin, fmt.Sprintf(`agents:
  spawner:
    command: [%s, spawn, --provider, %s, --base-url, %s]
    passEnv: [CODEANY_API_KEY]
  types: {Careful: {systemPrompt: You are CAREFUL., disallowedTools: [Write], model: small, maxTurns: 2}}
`, filepath.Join(bin, "sandboxd-agent"), provider, m.URL))
	d.Stop(os.Interrupt)
	d.Env = append(d.Env, "CODEANY_API_KEY=sk-test-of-the-daemon")
	d.Start()
	return d
}

// spawned is the data of an answer of the tool Agent.
type spawned struct {
	Session string   `json:"session_id"`
	Agent   string   `json:"agent"`
	Text    string   `json:"text"`
	Calls   []string `json:"tool_calls"`
	IsError bool     `json:"is_error"`
}

// startAgent calls the tool Agent, with more arguments as JSON.
func (d *Daemon) startAgent(session, more string) (r client.Result, data spawned) {
	d.t.Helper()
	args := json.RawMessage(`{"prompt": "What is in a.txt?", "description": "read a file"` + more + `}`)
	r, err := d.Agent.Call(d.t.Context(), session, "Agent", args)
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.Log)
	}
	of := r.Data
	if r.Error != nil {
		of = r.Error.Details
	}
	text, err := json.Marshal(of)
	if err == nil {
		err = json.Unmarshal(text, &data)
	}
	if err != nil {
		d.t.Fatalf("%s: %v", text, err)
	}
	return r, data
}

// offered are the names of the tools that a model was offered.
func offered(a Asked) (names []string) {
	list, _ := a.Body["tools"].([]any)
	for _, x := range list {
		tool := x.(map[string]any)
		if f, ok := tool["function"].(map[string]any); ok {
			tool = f
		}
		names = append(names, tool["name"].(string))
	}
	return names
}

// The tool Agent of a real daemon runs this agent, from the call to its result.
func TestN05_TheToolAgentRunsThisAgent(t *testing.T) {
	both(t, func(t *testing.T, provider string) {
		m := NewModel(t,
			Step{Text: "I look.", Calls: []Call{{ID: "t1", Name: "Read", Args: `{"file_path": "a.txt"}`}}},
			Step{Text: "a.txt says one."},
			Step{Text: "As I said: one."},
			Step{Text: "I write.", Calls: []Call{{ID: "t2", Name: "Write", Args: `{"file_path": "b.txt", "content": "x"}`}}})
		d := spawning(t, m, provider)
		d.Write("ws/a.txt", "one\n")
		parent := d.session(t)

		r, data := d.startAgent(parent, `, "subagent_type": "Explore"`)
		if r.Status != client.StatusSuccess || r.FinalText != "a.txt says one.\n[Tools used: Read]" || data.IsError ||
			data.Text != "a.txt says one." || !slices.Equal(data.Calls, []string{"Read"}) || data.Agent != "Explore-1" {
			t.Fatalf("got %+v\n%s", r, d.Log)
		}
		asked := m.Asked()
		if !strings.Contains(asked[0].Raw, "You explore a codebase.") || !strings.Contains(asked[0].Raw, "What is in a.txt?") ||
			!strings.Contains(asked[1].Raw, "one") || len(asked) != 2 {
			t.Errorf("%d requests: %+v", len(asked), asked)
		}
		if key := asked[0].Header.Get("X-Api-Key") + asked[0].Header.Get("Authorization"); !strings.HasSuffix(key, "sk-test-of-the-daemon") {
			t.Errorf("the key is %q", key)
		}
		tools := offered(asked[0])
		for name, want := range map[string]bool{"Read": true, "Bash": true, "Write": false, "Edit": false, "Agent": false, "Task": false} {
			if slices.Contains(tools, name) != want {
				t.Errorf("%s is offered: %v; tools are %v", name, !want, tools)
			}
		}

		// What the session knows is there when the agent goes on in it.
		r, again := d.startAgent(parent, `, "resume": "`+data.Session+`"`)
		if r.FinalText != "As I said: one." || again.Session != data.Session || len(again.Calls) != 0 {
			t.Errorf("got %+v\n%s", r, d.Log)
		}
		if raw := m.Asked()[2].Raw; !strings.Contains(raw, "a.txt says one.") {
			t.Errorf("it goes on with %s", raw)
		}

		// A type of the configuration. Its model calls a tool that it has not, then fails.
		r, failed := d.startAgent(parent, `, "subagent_type": "Careful", "name": "anna"`)
		if r.Status != client.StatusError || r.Error == nil || r.Error.Code != "agent_failed" || !strings.Contains(r.FinalText, "the script is over") ||
			failed.Agent != "anna" || !failed.IsError || !slices.Equal(failed.Calls, []string{"Write"}) {
			t.Errorf("got %+v\n%s", r, d.Log)
		}
		asked = m.Asked()
		first, second := asked[3], asked[4]
		if first.Body["model"] != "small" || !strings.Contains(first.Raw, "You are CAREFUL.") {
			t.Errorf("asked %s", first.Raw)
		}
		if tools := offered(first); slices.Contains(tools, "Write") || !slices.Contains(tools, "Edit") {
			t.Errorf("tools are %v", tools)
		}
		if _, err := os.Stat(filepath.Join(d.Workspace, "b.txt")); err == nil || !strings.Contains(second.Raw, "Write not found") {
			t.Errorf("the model is told %s", second.Raw)
		}

		var all []struct {
			Session string `json:"session_id"`
			Parent  string `json:"parent"`
			Agent   string `json:"agent"`
			Type    string `json:"agent_type"`
			State   string `json:"state"`
		}
		if err := d.Agent.Do(t.Context(), "GET", "/agents", nil, &all); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, a := range all[1:] {
			if a.Parent != parent {
				t.Errorf("%s is below %q", a.Agent, a.Parent)
			}
			lines = append(lines, a.Session+" "+a.Agent+" "+a.Type+" "+a.State)
		}
		want := []string{data.Session + " Explore-1 Explore idle", failed.Session + " anna Careful idle"}
		if slices.Sort(lines); all[0].Session != parent || !slices.Equal(lines, slices.Sorted(slices.Values(want))) {
			t.Errorf("the agents are %+v", all)
		}
		if strings.Contains(d.Log.String(), "sk-test") {
			t.Errorf("the key is in the log:\n%s", d.Log)
		}
	})
}
