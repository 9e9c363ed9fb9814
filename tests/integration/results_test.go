package integration

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestT11_T13_AnAnswerHasThreeStages looks at a success as it goes over the wire:
// data, the formatted text, and the final text that the model reads.
func TestT11_T13_AnAnswerHasThreeStages(t *testing.T) {
	d := newDaemon(t, "")
	var got map[string]json.RawMessage
	path := "/sessions/" + d.session() + "/calls"
	in := map[string]any{"tool": "Bash", "args": map[string]any{"command": "seq 1 12000"}}
	if err := d.agent.Do(t.Context(), "POST", path, in, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"status", "data", "formatted_text", "final_text", "is_truncated", "cache_var_result", "cache_var_args"} {
		if len(got[key]) == 0 {
			t.Errorf("the answer has no %s", key)
		}
	}
	var formatted, final string
	if err := json.Unmarshal(got["formatted_text"], &formatted); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got["final_text"], &final); err != nil {
		t.Fatal(err)
	}
	if string(got["is_truncated"]) != "true" || len(final) >= len(formatted) ||
		!strings.Contains(formatted, "\n6000\n") || strings.Contains(final, "\n6000\n") {
		t.Errorf("the final text has %d characters of %d, is_truncated %s", len(final), len(formatted), got["is_truncated"])
	}
}

// TestT60_AFailureIsAResult runs a batch in which one call fails: the others run,
// and each call has its own result.
func TestT60_AFailureIsAResult(t *testing.T) {
	d := newDaemon(t, "")
	d.write("ws/a.txt", "here\n")
	var got []struct {
		Status string `json:"status"`
		Text   string `json:"final_text"`
	}
	calls := []map[string]any{
		{"tool": "Read", "args": map[string]any{"file_path": "missing.txt"}},
		{"tool": "NoSuchTool", "args": map[string]any{}},
		{"tool": "Read", "args": map[string]any{"file_path": "a.txt"}},
		{"tool": "Bash", "args": map[string]any{"command": "echo done"}},
	}
	if err := d.agent.Do(t.Context(), "POST", "/sessions/"+d.session()+"/calls", map[string]any{"calls": calls}, &got); err != nil {
		t.Fatal(err)
	}
	want := []struct{ status, text string }{
		{"ERROR", "missing.txt"}, {"NOT_FOUND", "NoSuchTool"}, {"SUCCESS", "here"}, {"SUCCESS", "done"},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d results for %d calls", len(got), len(want))
	}
	for i, w := range want {
		if got[i].Status != w.status || !strings.Contains(got[i].Text, w.text) {
			t.Errorf("call %d: got %+v, want %+v", i, got[i], w)
		}
	}
}
