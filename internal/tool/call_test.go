package tool_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestACallHasIdsOfItsOwn(t *testing.T) {
	req := tool.Request{Account: "a", Session: "s", Tool: "Bash", ToolUseID: "t", Args: json.RawMessage(`{}`)}
	a, b := tool.NewCall(req), tool.NewCall(req)
	if !regexp.MustCompile(`^call_[A-Z2-7]{26}$`).MatchString(a.ID) || a.ID == b.ID ||
		!regexp.MustCompile(`^\d{14}-[0-9a-z]{10}$`).MatchString(a.NodeID) || a.NodeID == b.NodeID {
		t.Errorf("got %s %s and %s %s", a.ID, a.NodeID, b.ID, b.NodeID)
	}
	if a.In.CallID != a.ID || a.In.Session != "s" || a.Result.CallID != a.ID || a.Result.ToolUseID != "t" || a.Started.IsZero() {
		t.Errorf("got %+v", a)
	}
	a.In.Emit(tool.Progress{}) // nobody listens
	if a.Decision.Verdict != tool.Deny {
		t.Error("a new call is not denied")
	}
}

// wordy is a tool with short forms of its own, or one that fails to make them.
type wordy struct {
	fake
	fails bool
}

func (w wordy) CompressArgs(json.RawMessage) string { return w.text("args") }
func (w wordy) CompressResult(string) string        { return w.text("result\nin lines") }

func (w wordy) text(s string) string {
	if w.fails {
		panic("no text")
	}
	return s
}

func TestT32_AToolMayHaveShortFormsOfItsOwn(t *testing.T) {
	args := json.RawMessage(`{"a": 1}`)
	if a, r := tool.CompressArgs(wordy{}, args), tool.CompressResult(wordy{}, "x"); a != "args" || r != "result in lines" {
		t.Errorf("got %q, %q", a, r)
	}
	if a, r := tool.CompressArgs(wordy{fails: true}, args), tool.CompressResult(wordy{fails: true}, "x"); a != `{"a":1}` || r != "x" {
		t.Errorf("a tool that fails: %q, %q", a, r)
	}
	if got := tool.CompressArgs(fake{}, json.RawMessage("no JSON")); got != "no JSON" {
		t.Errorf("got %q", got)
	}
	if got := tool.CacheDescription("T", json.RawMessage("[1]"), strings.ToUpper); got != "Call T with args: [1]" {
		t.Errorf("got %q", got)
	}
}

func TestCX25_OnlyImagesAndDocumentsAreBlocks(t *testing.T) {
	r := tool.Result{Status: tool.StatusSuccess, Content: []tool.Content{
		{Type: "image", MIMEType: "image/png", Data: []byte{1}},
		{Type: "image"},
		{Type: "audio", Data: []byte{1}},
		{Type: "file", MIMEType: "application/pdf", Data: []byte{1}},
	}}
	b, err := json.Marshal(r.Anthropic())
	if err != nil || strings.Count(string(b), `"source"`) != 2 || !strings.Contains(string(b), `"document"`) {
		t.Errorf("got %s, %v", b, err)
	}
}
