package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Arguments that the daemon would not keep are an error for the model, and what was said is kept.
func TestArgumentsThatCannotBeKept(t *testing.T) {
	both(t, func(t *testing.T, provider string) {
		d := NewDaemon(t, bin, "")
		deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
		m := NewModel(t, Step{Text: "I call", Calls: []Call{
			{ID: "a", Name: "Bash", Args: `{"command": "touch ran", "x": ` + deep + `}`},
			{ID: "b", Name: "Bash", Args: `{"command": "true", "command": "touch ran"}`},
			{ID: "c", Name: "Bash", Args: `{"command": "touch ran", "description": "\ud800"}`},
			{ID: "d", Name: "Bash", Args: `{"command": "touch ran", "x": ` + deep[9000-191:9000+191] + `}`}, // just kept
			bash("e", "echo fine"),
		}}, Step{Text: "sorry"}, Step{Text: "on"})
		r := d.Command(m, "--provider", provider, "--json", "go")
		end := ends(t, r, 0, "success")
		for i, result := range r.Messages(t, "toolResult") {
			if text := result["content"].(string); i < 3 && (result["is_error"] != true || !strings.Contains(text, "not one JSON object") || len(text) > 2000) {
				t.Errorf("call %d: %.300v", i, result)
			}
		}
		if _, err := os.Stat(filepath.Join(d.Workspace, "ran")); err == nil {
			t.Error("a call ran")
		}
		if fmt.Sprint(end["errors"]) != "[]" {
			t.Errorf("the errors are %v", end["errors"])
		}
		d.saved(t, end, 4)
		ends(t, d.Command(m, "--provider", provider, "--json", "--continue", "and on"), 0, "success")
		raw := m.Asked()[2].Raw
		if strings.Count(raw, "not one JSON object") != 3 || !strings.Contains(raw, "fine") {
			t.Errorf("it goes on with %.3000s", raw)
		}
	})
}

// saved checks how many messages the daemon has of a conversation.
func (d *Daemon) saved(t *testing.T, end map[string]any, want int) {
	t.Helper()
	var messages []struct{ Role string }
	id := end["session_id"].(string)
	if err := d.Agent.Do(t.Context(), "GET", "/sessions/"+id+"/messages?limit=1000", nil, &messages); err != nil || len(messages) != want {
		t.Errorf("%v is saved, want %d: %v", messages, want, err)
	}
}

// The results of one answer are kept together, so there is a bound for all of them.
func TestResultsThatAreTooLongTogether(t *testing.T) {
	d := NewDaemon(t, bin, "sandbox: {limits: {wallSeconds: 1200}}\n")
	d.Write("ws/large.txt", strings.Repeat(strings.Repeat("x", 999)+"\n", 100))
	var calls []Call
	for i := range 100 {
		calls = append(calls, Call{ID: fmt.Sprint("r", i), Name: "Read", Args: `{"file_path": "large.txt"}`})
	}
	m := NewModel(t, Step{Text: "I read", Calls: calls}, Step{Text: "done"})
	end := ends(t, d.Command(m, "--json", "--context-window", "100000000", "go"), 0, "success")
	d.saved(t, end, 4)
	raw := m.Asked()[1].Raw
	if left := strings.Count(raw, "Left out: "); left == 0 || left > 70 || strings.Count(raw, `"tool_result"`) != 100 || len(raw) > 8<<20 {
		t.Errorf("%d of 100 results are left out, in %d bytes", left, len(raw))
	}
}

// half is an answer that breaks off before its end, with what its server counted.
func half(provider string, s Step) Step {
	return Step{Serve: func(w http.ResponseWriter, _ *http.Request) {
		text, end := s.Anthropic(), "event: message_delta"
		if provider == "openai" {
			text, end = s.OpenAI(), `"delta":{},"logprobs"`
		}
		w.Header().Set("Content-Type", "text/event-stream")
		text = text[:strings.Index(text, end)]
		fmt.Fprint(w, text[:strings.LastIndex(text, "\n\n")+2])
	}}
}

// Answers that break off are paid for. They count, and over the budget nothing is asked again.
func TestL16_AnswersThatBreakOffCount(t *testing.T) {
	both(t, func(t *testing.T, provider string) {
		d := NewDaemon(t, bin, "")
		broken := half(provider, Step{Text: strings.Repeat("words ", 200), In: 20_000, Calls: []Call{bash("t", "touch ran")}})
		m := NewModel(t, broken, broken, Step{Text: "whole", In: 10, Out: 10})
		end := ends(t, d.Command(m, withQuick("--provider", provider, "go")...), 0, "success")
		usage := end["usage"].(map[string]any)
		// What was not counted is held to the size of the texts: 1,200 bytes in each that broke off.
		if usage["output_tokens"].(float64) < 610 || usage["output_tokens"].(float64) > 700 {
			t.Errorf("the usage is %v", usage)
		}
		if in := usage["input_tokens"].(float64); provider == "anthropic" && in != 40_010 || in < 2000 {
			t.Errorf("the usage is %v", usage)
		}
		m = NewModel(t, broken, Step{Text: "whole", In: 10, Out: 10})
		r := d.Command(m, withQuick("--provider", provider, "--model", "dear", "--price", "dear=1000/1000", "--max-budget-usd", "0.1", "go")...)
		end = ends(t, r, 6, "errorMaxBudgetUsd")
		if len(m.Asked()) != 1 || end["total_cost_usd"].(float64) <= 0.1 {
			t.Errorf("%d requests, %v", len(m.Asked()), end)
		}
		if _, err := os.Stat(filepath.Join(d.Workspace, "ran")); err == nil {
			t.Error("a call of an answer that broke off ran")
		}
	})
}

// A summary that goes over the budget is not followed by another request.
func TestL16_ASummaryOverTheBudgetIsTheLastRequest(t *testing.T) {
	d := NewDaemon(t, bin, "")
	m := NewModel(t, Step{Text: "I look", In: 15_000, Out: 10, Calls: []Call{bash("t", "true")}},
		Step{Text: "SUMMARY", In: 20_000, Out: 1}, Step{Text: "done", In: 1, Out: 1})
	r := d.Command(m, withQuick("--context-window", "25000", "--max-budget-usd", "0.06", "go")...)
	if end := ends(t, r, 6, "errorMaxBudgetUsd"); len(m.Asked()) != 2 || end["num_turns"] != 1.0 {
		t.Errorf("%d requests, %v", len(m.Asked()), end)
	}
}

// What cannot be written is a failure, and is said once.
func TestNothingCanBeWritten(t *testing.T) {
	d := NewDaemon(t, bin, "")
	for _, args := range [][]string{
		{"--help"}, {"--version"}, {"models"}, {"models", "--json"}, {"--json", "go"}, {"go"}, {"--json", "--input", "-"}, {"spawn"},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := NewModel(t, Step{Text: "a long text, which comes in many parts", Calls: []Call{bash("a", "true")}}, Step{Text: "b"})
		r := d.Command(m, args...)
		r.Stdout = full
		r.Stdin = strings.NewReader("one\ntwo\n")
		if args[0] == "spawn" {
			r.Stdin = strings.NewReader(order(d, d.session(t), "p", ""))
		}
		code := r.Finish()
		full.Close()
		said := r.Err.String()
		if code == 0 || strings.Count(said, "error:") != 1 || strings.Count(said, "no space left on device") != 1 {
			t.Errorf("%q: exit %d: %s", args, code, said)
		}
	}
}
