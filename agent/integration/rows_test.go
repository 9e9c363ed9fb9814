package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// quick are flags of tests that let requests fail.
var quick = []string{"--json", "--retry-base-ms", "1", "--retry-max-ms", "2"}

func withQuick(args ...string) []string { return append(quick[:len(quick):len(quick)], args...) }

func status(code int) Step {
	return Step{Serve: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":{"message":"no"}}`, code) }}
}

// ends runs an agent and checks how it ends.
func ends(t *testing.T, r *Run, exit int, subtype string) map[string]any {
	t.Helper()
	code := r.Finish()
	end := r.Result(t)
	if code != exit || end["subtype"] != subtype {
		t.Fatalf("exit %d, %v; want %d, %s\n%s", code, end, exit, subtype, r.Err)
	}
	return end
}

func bash(id, command string) Call {
	args, _ := json.Marshal(map[string]string{"command": command})
	return Call{ID: id, Name: "Bash", Args: string(args)}
}

func TestL11_L12_TheFallbackIsBookedApart(t *testing.T) {
	d := NewDaemon(t, bin, "")
	m := NewModel(t,
		Step{Text: "one", In: 45, Out: 3, Calls: []Call{bash("t", "true")}},
		status(529), status(500), status(429), status(503), Step{Text: "two", In: 100, Out: 10})
	end := ends(t, d.Command(m, withQuick("--fallback-model", "claude-haiku-4-5", "go")...), 0, "success")
	want := `[{"cost_usd":0.00018,"input_tokens":45,"model":"claude-sonnet-4-6","output_tokens":3},` +
		`{"cost_usd":0.00012,"input_tokens":100,"model":"claude-haiku-4-5","output_tokens":10}]`
	if got, _ := json.Marshal(end["cost_breakdown"]); string(got) != want {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprintf("%.5f", end["total_cost_usd"]); got != "0.00030" {
		t.Errorf("the total is %s", got)
	}
}

func TestL16_CallsOverTheBudgetDoNotRun(t *testing.T) {
	both(t, func(t *testing.T, provider string) {
		d := NewDaemon(t, bin, "")
		m := NewModel(t, Step{Text: "dear", In: 20_000, Out: 1, Calls: []Call{bash("t", "touch ran")}})
		end := ends(t, d.Command(m, withQuick("--provider", provider, "--max-budget-usd", "0.05", "go")...), 6, "errorMaxBudgetUsd")
		if _, err := os.Stat(filepath.Join(d.Workspace, "ran")); err == nil {
			t.Error("the call ran")
		}
		if end["text"] != "dear" || end["usage"].(map[string]any)["input_tokens"] != 20_000.0 {
			t.Errorf("the result is %v", end)
		}
		refuses(t, d, d.Command(m, "--max-budget-usd", "1", "--model", "unknown", "go"), 1, "--price unknown=IN/OUT")
	})
}

// refuses runs an agent that must not ask its model.
func refuses(t *testing.T, _ *Daemon, r *Run, exit int, want string) {
	t.Helper()
	if code := r.Finish(); code != exit || !strings.Contains(r.Err.String(), want) {
		t.Errorf("%q: exit %d, %s; want %d, %q", r.Args[1:], code, r.Err, exit, want)
	}
}

func TestL20_TurnsAreBounded(t *testing.T) {
	d := NewDaemon(t, bin, "")
	same := Step{Text: "again", In: 1, Out: 1, Calls: []Call{bash("t", "true")}}
	m := NewModel(t, same, same, same, same)
	end := ends(t, d.Command(m, withQuick("--max-turns", "3", "go")...), 5, "errorMaxTurns")
	if end["num_turns"] != 3.0 || end["text"] != "again\n\nagain\n\nagain" {
		t.Errorf("the result is %v", end)
	}
}

func TestL21_CutAnswersAreContinuedThreeTimes(t *testing.T) {
	both(t, func(t *testing.T, provider string) {
		d := NewDaemon(t, bin, "")
		cut := func(text string) Step { return Step{Text: text, Stop: "max_tokens", In: 1, Out: 1} }
		with := cut("a")
		with.Calls = []Call{bash("t", "touch ran")}
		m := NewModel(t, with, cut("b"), cut("c"), cut("d"))
		end := ends(t, d.Command(m, withQuick("--provider", provider, "go")...), 0, "success")
		if end["text"] != "abcd" || len(m.Asked()) != 4 {
			t.Errorf("%v after %d requests", end, len(m.Asked()))
		}
		if n := strings.Count(m.Asked()[3].Raw, "Please continue from where you left off."); n != 3 {
			t.Errorf("asked to continue %d times: %s", n, m.Asked()[3].Raw)
		}
		if _, err := os.Stat(filepath.Join(d.Workspace, "ran")); err == nil || strings.Contains(m.Asked()[1].Raw, "touch ran") {
			t.Error("a call of an answer that was cut off ran, or is said to have been made")
		}
	})
}

func TestL22_TheConversationIsSummedUp(t *testing.T) {
	d := NewDaemon(t, bin, "")
	m := NewModel(t,
		Step{Text: "I look", In: 15_000, Out: 10, Calls: []Call{bash("t", "echo found-it")}},
		Step{Text: "SUMMARY", In: 1, Out: 1}, Step{Text: "done", In: 100, Out: 1}, Step{Text: "more", In: 1, Out: 1})
	r := d.Command(m, withQuick("--context-window", "25000", "find it")...)
	end := ends(t, r, 0, "success")
	if !strings.Contains(r.Out.String(), `{"type":"system","subtype":"compact","text":"about 15`) {
		t.Errorf("nobody is told of the summary:\n%s", r.Out)
	}
	asked := m.Asked()
	if asked[1].Body["tools"] != nil || !strings.Contains(asked[1].Raw, "found-it") {
		t.Errorf("the summary is asked by %s", asked[1].Raw)
	}
	if text, _ := json.Marshal(asked[2].Body["messages"]); !strings.Contains(string(text), "SUMMARY") ||
		!strings.Contains(string(text), "find it") || strings.Contains(string(text), "found-it") || asked[2].Body["tools"] == nil {
		t.Errorf("it goes on with %s", text)
	}
	// Going on begins at the summary, too.
	ends(t, d.Command(m, withQuick("--resume", end["session_id"].(string), "and then")...), 0, "success")
	if raw := m.Asked()[3].Raw; !strings.Contains(raw, "SUMMARY") || strings.Contains(raw, "found-it") {
		t.Errorf("resumed with %s", raw)
	}
}

func TestL22_AfterThreeFailuresItIsNotTriedAgain(t *testing.T) {
	d := NewDaemon(t, bin, "")
	large := Step{Text: "I look", In: 15_000, Out: 10, Calls: []Call{bash("t", "true")}}
	m := NewModel(t, large, status(400), large, status(400), large, status(400), large, large, Step{Text: "done"})
	r := d.Command(m, withQuick("--context-window", "25000", "go")...)
	ends(t, r, 0, "success")
	for i, asked := range m.Asked() {
		if summary := i == 1 || i == 3 || i == 5; (asked.Body["tools"] == nil) != summary {
			t.Errorf("request %d of %d: a summary is %v", i+1, len(m.Asked()), !summary)
		}
	}
}

func TestL10_L14_L23_InputsAreOneCycleEach(t *testing.T) {
	d := NewDaemon(t, bin, "")
	m := NewModel(t, Step{Text: "1"}, Step{Text: "2"}, Step{Text: "3"})
	r := d.Command(m, "--json", "--input", "-")
	r.Stdin = strings.NewReader(`first
{"type": "control", "set_model": "  claude-opus-4-6 "}
{"type": "control", "set_model": " "}
{"type": "control", "set_max_thinking_tokens": 2048}
{"type": "control", "set_max_thinking_tokens": 0}
{"type": "user", "text": "second"}
{"type": "control", "set_max_thinking_tokens": null}
{"type": "what"}

third
`)
	if code := r.Finish(); code != 0 {
		t.Fatalf("exit %d: %s", code, r.Err)
	}
	var controls []string
	for _, s := range r.Messages(t, "system") {
		if s["subtype"] == "control" {
			controls = append(controls, s["text"].(string))
		}
	}
	if len(r.Messages(t, "result")) != 3 || len(controls) != 6 || controls[0] != "done" ||
		!strings.Contains(controls[1], "Model name cannot be empty") || !strings.Contains(controls[3], "invalidConfiguration") ||
		!strings.Contains(controls[5], "unknown type") {
		t.Errorf("%d results, controls %q", len(r.Messages(t, "result")), controls)
	}
	second, third := m.Asked()[1].Body, m.Asked()[2].Body
	if second["model"] != "claude-opus-4-6" || !reflect.DeepEqual(second["thinking"], map[string]any{"type": "enabled", "budget_tokens": 2048.0}) {
		t.Errorf("the second is asked with %v and %v", second["model"], second["thinking"])
	}
	if !reflect.DeepEqual(third["thinking"], map[string]any{"type": "disabled"}) || !strings.Contains(m.Asked()[2].Raw, "first") {
		t.Errorf("the third is asked by %s", m.Asked()[2].Raw)
	}
}

func TestL23_TheTypesOfMessages(t *testing.T) {
	d := NewDaemon(t, bin, "")
	m := NewModel(t, Step{Text: "I look", Calls: []Call{bash("t", "true")}}, Step{Text: "done"})
	r := d.Command(m, "--json", "go")
	ends(t, r, 0, "success")
	seen := map[string]string{}
	for _, msg := range r.Messages(t) {
		seen[msg["type"].(string)] = strings.Join(slices.Sorted(maps.Keys(msg)), " ")
	}
	for name, fields := range map[string]string{
		"system":         "cwd mode model session_id subtype type",
		"userMessage":    "text type",
		"partialMessage": "text type",
		"assistant":      "content model stop_reason text type",
		"toolUse":        "input tool_name tool_use_id type",
		"toolProgress":   "call_id state tool_name tool_use_id type",
		"toolResult":     "call_id content is_error status tool_name tool_use_id type verdict wall_ms",
		"result": "cost_breakdown duration_ms errors is_cancelled num_turns session_id subtype text total_cost_usd " +
			"type usage",
	} {
		if seen[name] != fields {
			t.Errorf("%s has %q, want %q", name, seen[name], fields)
		}
		delete(seen, name)
	}
	if len(seen) > 0 {
		t.Errorf("more types: %v", seen)
	}
	if init := r.Messages(t, "system")[0]; init["subtype"] != "init" || init["cwd"] != d.Workspace ||
		init["mode"] != "auto" || init["session_id"] != r.Result(t)["session_id"] {
		t.Errorf("it begins with %v", init)
	}
	for i, want := range []string{"tool_use", "end_turn"} {
		if got := r.Messages(t, "assistant")[i]["stop_reason"]; got != want {
			t.Errorf("answer %d stopped by %v, want %s", i, got, want)
		}
	}
	result := r.Messages(t, "toolResult")[0]
	if result["status"] != "SUCCESS" || result["verdict"] != "allow" || result["is_error"] != false {
		t.Errorf("the call: %v", result)
	}
}

func TestL24_PartsOfAFailureAreKept(t *testing.T) {
	d := NewDaemon(t, bin, "")
	m := NewModel(t, Step{Text: "so far", In: 5, Out: 5, Calls: []Call{bash("t", "true")}}, status(400))
	end := ends(t, d.Command(m, withQuick("go")...), 1, "errorDuringExecution")
	if end["text"] != "so far" || end["usage"].(map[string]any)["input_tokens"] != 5.0 ||
		!strings.Contains(fmt.Sprint(end["errors"]), "answered 400: no") {
		t.Errorf("the result is %v", end)
	}
}

// An answer that broke off is asked again with the same messages, and nothing of it runs.
func TestL09_NothingOfHalfAnAnswerRuns(t *testing.T) {
	both(t, func(t *testing.T, provider string) {
		d := NewDaemon(t, bin, "")
		half := Step{Serve: func(w http.ResponseWriter, _ *http.Request) {
			s := Step{Text: "half", Calls: []Call{bash("t", "touch ran")}}
			text := s.Anthropic()
			end := "event: message_delta"
			if provider == "openai" {
				text, end = s.OpenAI(), `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[{"index":0,"delta":{},`
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, text[:strings.Index(text, end)])
		}}
		m := NewModel(t, half, Step{Text: "whole"})
		end := ends(t, d.Command(m, withQuick("--provider", provider, "go")...), 0, "success")
		if _, err := os.Stat(filepath.Join(d.Workspace, "ran")); err == nil || end["text"] != "whole" {
			t.Errorf("it ran, or the result is %v", end)
		}
		if asked := m.Asked(); asked[0].Raw != asked[1].Raw {
			t.Errorf("asked %s, then %s", asked[0].Raw, asked[1].Raw)
		}
	})
}

func TestL18_TheEnvironmentIsBeforeTheDefault(t *testing.T) {
	d := NewDaemon(t, bin, "")
	for _, tt := range []struct {
		name      string
		env, args []string
		model     string
		key       string
	}{
		{"default", nil, nil, "claude-sonnet-4-6", "sk-test-key"},
		{"environment", []string{"CODEANY_MODEL=claude-opus-4-6"}, nil, "claude-opus-4-6", "sk-test-key"},
		{"flag", []string{"CODEANY_MODEL=claude-opus-4-6"}, []string{"--model", "mine"}, "mine", "sk-test-key"},
		{"key of the provider", []string{"CODEANY_API_KEY=", "ANTHROPIC_API_KEY=a"}, nil, "claude-sonnet-4-6", "a"},
		{"the one key is first", []string{"ANTHROPIC_API_KEY=a"}, nil, "claude-sonnet-4-6", "sk-test-key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := NewModel(t, Step{Text: "x"})
			r := d.Command(m, append([]string{"--json", "go"}, tt.args...)...)
			r.Env = append(r.Env, tt.env...)
			ends(t, r, 0, "success")
			if got := m.Asked()[0]; got.Body["model"] != tt.model || got.Header.Get("X-Api-Key") != tt.key {
				t.Errorf("asked %v with %v", got.Body["model"], got.Header)
			}
		})
	}
	m := NewModel(t)
	r := d.Command(m, "go")
	r.Env = append(r.Env, "CODEANY_API_KEY=", "OPENAI_API_KEY=other")
	refuses(t, d, r, 2, "set ANTHROPIC_API_KEY")
	r = d.Command(NewModel(t, Step{Text: "x"}), "--json", "--base-url", m.URL, "go")
	r.Finish()
	if len(m.Asked()) != 1 {
		t.Error("the flag is not before CODEANY_BASE_URL")
	}
}

func TestL25_H02_H03_HooksInTheirOrder(t *testing.T) {
	d := NewDaemon(t, bin, "hooks:\n"+hooksThatLog("sessionStart", "userPromptSubmit", "preToolUse", "postToolUse",
		"postToolUseFailure", "stop", "sessionEnd"))
	m := NewModel(t, Step{Calls: []Call{bash("a", "true"), {ID: "b", Name: "Read", Args: `{"file_path": "none"}`}, bash("c", "true")}}, Step{Text: "done"})
	ends(t, d.Command(m, "--json", "go"), 0, "success")
	want := "sessionStart userPromptSubmit preToolUse postToolUseFailure preToolUse postToolUse preToolUse postToolUse stop sessionEnd"
	if got := strings.Join(strings.Fields(d.Read("log")), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// hooksThatLog is the configuration of hooks that write the names of their events.
func hooksThatLog(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "  %s:\n    - command: echo %s >> \"$(dirname \"$HOOK_CWD\")/log\"\n", e, e)
	}
	return b.String()
}

func TestL25_AHookRefusesThePrompt(t *testing.T) {
	d := NewDaemon(t, bin, "hooks:\n  userPromptSubmit:\n    - command: echo no secrets >&2; exit 2\n"+hooksThatLog("stop"))
	m := NewModel(t)
	end := ends(t, d.Command(m, "--json", "go"), 1, "errorDuringExecution")
	if len(m.Asked()) != 0 || !strings.Contains(fmt.Sprint(end["errors"]), "no secrets") || d.Read("log") != "stop\n" {
		t.Errorf("%d requests, %v", len(m.Asked()), end)
	}
}

// TestL25_WhatAHookSaysIsALine: who reads the lines sees what the model was told by a hook.
func TestL25_WhatAHookSaysIsALine(t *testing.T) {
	d := NewDaemon(t, bin, "hooks:\n  userPromptSubmit:\n    - command: printf '{\"systemMessage\":\"be brief\"}'\n")
	r := d.Command(NewModel(t, Step{Text: "x"}), "--json", "go")
	ends(t, r, 0, "success")
	lines := slices.Collect(strings.Lines(r.Out.String()))
	if !slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(line, "hookResponse") && strings.Contains(line, `"event":"userPromptSubmit"`) &&
			strings.Contains(line, `"system_messages":["be brief"]`)
	}) {
		t.Errorf("got %s", r.Out)
	}
}

func TestSessionsGoOn(t *testing.T) {
	d := NewDaemon(t, bin, "")
	m := NewModel(t, Step{Text: "first answer"}, Step{Text: "2"}, Step{Text: "3"}, Step{Text: "4"})
	first := ends(t, d.Command(m, "--json", "my name is Ann"), 0, "success")["session_id"].(string)
	d.session(t) // of somebody else, and empty
	second := ends(t, d.Command(m, "--json", "--continue", "who am I?"), 0, "success")
	if second["session_id"] != first || !strings.Contains(m.Asked()[1].Raw, "my name is Ann") || !strings.Contains(m.Asked()[1].Raw, "first answer") {
		t.Errorf("%v goes on with %s", second, m.Asked()[1].Raw)
	}
	var messages []struct{ UUID string }
	if err := d.Agent.Do(t.Context(), "GET", "/sessions/"+first+"/messages", nil, &messages); err != nil || len(messages) != 4 {
		t.Fatalf("%v, %v", messages, err)
	}
	fork := ends(t, d.Command(m, "--json", "--resume", first, "--fork-session", "--resume-at", messages[1].UUID, "and?"), 0, "success")
	if fork["session_id"] == first || strings.Contains(m.Asked()[2].Raw, "who am I?") || !strings.Contains(m.Asked()[2].Raw, "first answer") {
		t.Errorf("the fork %v goes on with %s", fork, m.Asked()[2].Raw)
	}
	r := d.Command(m, "--json", "--resume", "unknown", "go")
	if code := r.Finish(); code != 1 || r.Result(t)["subtype"] != "errorDuringExecution" {
		t.Errorf("an unknown session: exit %d, %s", code, r.Out)
	}
	for _, args := range [][]string{
		{"--continue", "--resume", first, "go"},
		{"--fork-session", "go"},
		{"--resume-at", "x", "go"},
		{"--max-budget-usd", "-1", "go"},
		{"--max-budget-usd", "NaN", "go"},
		{"--context-window", "10000", "go"},
		{"--thinking", "much", "go"},
		{"--thinking", "0", "go"},
		{"--provider", "x", "go"},
		{"--provider", "openai", "--thinking", "9", "go"},
		{"--api-key", "x", "go"},
		{},
		{"--input", "file", "go"},
		{"--input", "-", "go"},
		{"--price", "x", "go"},
		{"--max-turns", "0", "go"},
		{"models", "x"},
		{"--mode", "plan", "--continue", "go"},
		{"--effort", "low", "--thinking", "9", "go"},
		{"--retry-max-ms", "-1", "go"},
		{"spawn", "--continue"},
	} {
		refuses(t, d, d.Command(m, args...), 2, "error: ")
	}
}

// A shell says in PWD by which link it came to a directory. The session is that of the directory.
func TestContinueThroughALink(t *testing.T) {
	d := NewDaemon(t, bin, "")
	m := NewModel(t, Step{Text: "first answer"}, Step{Text: "2"})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(d.Workspace, link); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *Run {
		r := d.Command(m, args...)
		r.Dir, r.Env = link, append(r.Env, "PWD="+link)
		return r
	}
	first := ends(t, command("--json", "my name is Ann"), 0, "success")["session_id"]
	if second := ends(t, command("--json", "--continue", "who?"), 0, "success")["session_id"]; second != first {
		t.Errorf("%v is followed by %v", first, second)
	}
}

// An agent that was killed left a call without a result, which no server takes back.
func TestACallWithoutAResultIsAnswered(t *testing.T) {
	both(t, func(t *testing.T, provider string) {
		d := NewDaemon(t, bin, "")
		id := d.session(t)
		in := json.RawMessage(`{"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": [
			{"type": "text", "text": "I look"}, {"type": "tool_use", "id": "lost", "name": "Bash", "input": {}}]}]}`)
		if err := d.Agent.Do(t.Context(), "POST", "/sessions/"+id+"/messages", in, nil); err != nil {
			t.Fatal(err)
		}
		m := NewModel(t, Step{Text: "on"})
		ends(t, d.Command(m, "--provider", provider, "--json", "--resume", id, "and on"), 0, "success")
		raw := m.Asked()[0].Raw
		if call, result, prompt := strings.Index(raw, `"lost"`), strings.Index(raw, "It may have run."), strings.Index(raw, "and on"); call < 0 ||
			result < call || prompt < result {
			t.Errorf("it goes on with %s", raw)
		}
	})
}

// session makes a session and returns its id.
func (d *Daemon) session(t testing.TB) string {
	t.Helper()
	var s struct{ ID string }
	if err := d.Agent.Do(t.Context(), "POST", "/sessions", map[string]any{"cwd": d.Workspace}, &s); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

func TestT61_LongResultsAreCondensedButErrorsNot(t *testing.T) {
	d := NewDaemon(t, bin, "")
	// At its timeout a call is an error, which holds what the command printed.
	step := Step{Calls: []Call{bash("a", "seq 1 20000"), {ID: "b", Name: "Bash", Args: `{"command": "seq 1 20000; sleep 1000", "timeout": 3000}`}}}
	m := NewModel(t, step, Step{Text: "numbers from 1 to 20000"}, Step{Text: "done"}, step, Step{Text: "done"})
	r := d.Command(m, "--json", "--condense", "go")
	ends(t, r, 0, "success")
	results := r.Messages(t, "toolResult")
	if text := results[0]["content"].(string); !strings.HasPrefix(text, "[condensed from 1") || !strings.Contains(text, "from 1 to 20000") {
		t.Errorf("the result is %.200s", text)
	}
	if text := results[1]["content"].(string); strings.Contains(text, "condensed") || results[1]["is_error"] != true || len(text) < 10_000 {
		t.Errorf("the error is %.200s", text)
	}
	if m.Asked()[1].Body["tools"] != nil {
		t.Error("it is condensed with tools")
	}
	ends(t, d.Command(m, "--json", "go"), 0, "success")
	if len(m.Asked()) != 5 {
		t.Errorf("%d requests: it is not off by default", len(m.Asked()))
	}
}

func TestA18_AReviewIsForThePersonAlone(t *testing.T) {
	d := NewDaemon(t, bin, "")
	exec.Command("git", "init", "-q", d.Workspace).Run()
	m := NewModel(t, Step{Text: "I push", Calls: []Call{bash("a", "git push --force")}}, Step{Text: "REVIEWED: loses history"}, Step{Text: "ok"})
	r := d.Command(m, "--json", "--review", "publish")
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	id := d.Waiting()
	d.Eventually("it is reviewed", func() bool { return strings.Contains(r.Out.String(), `"state":"reviewed"`) })
	d.Decide(id, false)
	r.Wait()
	if end := r.Result(t); end["subtype"] != "success" || !strings.Contains(r.Out.String(), "loses history") {
		t.Errorf("%v\n%s", end, r.Out)
	}
	for _, p := range r.Messages(t, "toolProgress") {
		why, _ := json.Marshal(p["why"])
		until, err := time.Parse(time.RFC3339, fmt.Sprint(p["expires_at"]))
		if p["state"] == "running" {
			continue
		}
		if p["approval_id"] != id || err != nil || until.IsZero() || !strings.Contains(string(why), "push") ||
			(p["review"] != nil) != (p["state"] == "reviewed") {
			t.Errorf("of the question: %v", p)
		}
	}
	asked := m.Asked()
	if !strings.Contains(asked[1].Raw, "git push --force") || asked[1].Body["tools"] != nil || strings.Contains(asked[2].Raw, "loses history") {
		t.Errorf("the review is asked by %s, and then %s", asked[1].Raw, asked[2].Raw)
	}
}

func TestReadOnlyCallsRunAtOnce(t *testing.T) {
	d := NewDaemon(t, bin, "hooks:\n  preToolUse:\n    - matcher: Read\n      command: touch \"$HOOK_CWD/$$.here\"; "+
		"for i in $(seq 1000); do [ $(ls \"$HOOK_CWD\" | grep -c here) -ge 3 ] && exit 0; sleep 0.01; done; exit 2\n")
	d.Write("ws/a", "one")
	read := func(id string) Call { return Call{ID: id, Name: "Read", Args: `{"file_path": "a"}`} }
	m := NewModel(t, Step{Calls: []Call{read("1"), read("2"), read("3")}}, Step{Text: "done"})
	r := d.Command(m, "--json", "go")
	ends(t, r, 0, "success")
	for _, result := range r.Messages(t, "toolResult") {
		if result["is_error"] != false {
			t.Errorf("the calls did not meet: %v", result)
		}
	}
}

func TestModelsAreListed(t *testing.T) {
	d := NewDaemon(t, bin, "")
	r := d.Command(NewModel(t), "models", "--json")
	var models []struct{ Value, DisplayName string }
	if code := r.Finish(); code != 0 || json.Unmarshal([]byte(r.Out.String()), &models) != nil || len(models) != 3 {
		t.Errorf("exit %d: %s", code, r.Out)
	}
	if !slices.ContainsFunc(models, func(m struct{ Value, DisplayName string }) bool { return m.Value == "claude-sonnet-4-6" }) {
		t.Errorf("the models are %v", models)
	}
}
