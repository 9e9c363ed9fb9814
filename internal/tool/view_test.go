package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestCX25_T37_TwoViewsOfOneRecord(t *testing.T) {
	r := tool.Result{ToolUseID: "tu_1", Status: tool.StatusSuccess, FinalText: "ab", Content: []tool.Content{
		{Type: "text", Text: "ab"},
		{Type: "image", Data: []byte{1, 2}, MIMEType: "image/png"},
		{Type: "resource", Data: []byte{3}, MIMEType: "application/pdf"},
		{Type: "resource", URI: "file:///x"},
	}}
	for _, tt := range []struct {
		name string
		view any
		want string
	}{
		{
			"anthropic", r.Anthropic(),
			`{"type":"tool_result","tool_use_id":"tu_1","content":[{"type":"text","text":"ab"},` +
				`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AQI="}},` +
				`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"Aw=="}}]}`,
		},
		{"openai", r.OpenAI(), `{"role":"tool","tool_call_id":"tu_1","content":"ab"}`},
		{
			"a failure", tool.Result{ToolUseID: "t", Status: tool.StatusResultRejected, FinalText: "no"}.Anthropic(),
			`{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"no"}],"is_error":true}`,
		},
		{"no text", tool.Result{
			ToolUseID: "t", Status: tool.StatusSuccess,
		}.Anthropic(), `{"type":"tool_result","tool_use_id":"t","content":[]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := json.Marshal(tt.view)
			if err != nil || string(b) != tt.want {
				t.Errorf("got %s, %v\nwant %s", b, err, tt.want)
			}
		})
	}
}

func TestT12_CX24_StatusSpelling(t *testing.T) {
	for in, want := range map[string]tool.Status{
		`"SUCCESS"`: tool.StatusSuccess, `"error"`: tool.StatusError,
		`"execution_rejected"`: tool.StatusExecutionRejected,
		`"RESULT_REJECTED"`:    tool.StatusResultRejected, `"not_found"`: tool.StatusNotFound,
	} {
		var got tool.Status
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", in, got, err, want)
		}
		b, err := json.Marshal(got)
		if err != nil || string(b) != strings.ToUpper(in) {
			t.Errorf("got %s, %v, want upper case on the wire", b, err)
		}
	}
}
