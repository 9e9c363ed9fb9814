package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/tool"
)

type failing struct {
	fake
	fail func() error
}

func (f failing) Run(context.Context, tool.In, sandbox.Box) (tool.Output, error) {
	return tool.Output{Data: "kept"}, f.fail()
}

func (f failing) Uses(context.Context, tool.In) (sandbox.Uses, error) {
	return sandbox.Uses{Hosts: []string{"x"}}, f.fail()
}

func TestT16_FailuresAndPanicsHaveOneShape(t *testing.T) {
	for _, tt := range []struct {
		name       string
		fail       func() error
		code, text string
	}{
		{"an error", func() error { return errors.New("disk on fire") }, "tool_failed", "Error executing tool X: disk on fire"},
		{"a panic", func() error { panic("oh") }, "tool_panic", "Error executing tool X: oh\nHint:"},
		{"an error with a hint", func() error { return &tool.Error{Code: "c", Msg: "m", Hint: "h"} }, "c", "Error executing tool X: m\nHint: h"},
		{"wrapped", func() error { return fmt.Errorf("read: %w", &tool.Error{Code: "c", Msg: "m"}) }, "c", "Error executing tool X: m"},
		{"cancelled", func() error { return context.Canceled }, "cancelled", "Error executing tool X: the call was cancelled"},
		{"refused by the box", func() error {
			return &sandbox.Denied{Refusals: []sandbox.Refusal{{Code: "path_denied", Message: "no", Hint: "h"}}}
		}, "path_denied", "Error executing tool X: no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := failing{named("X"), tt.fail}
			_, err := tool.Run(t.Context(), f, tool.In{}, nil)
			if e := tool.AsError(err); e == nil || e.Code != tt.code {
				t.Errorf("got %v, want code %s", err, tt.code)
			}
			if got := tool.ErrorText("X", err); !strings.HasPrefix(got, tt.text) {
				t.Errorf("got %q, want %q", got, tt.text)
			}
			if (tool.AsError(err).Stack() != "") != (tt.code == "tool_panic") {
				t.Errorf("got stack %q", tool.AsError(err).Stack())
			}
			if _, err := tool.Uses(t.Context(), f, tool.In{}); err == nil {
				t.Error("Uses that fails must deny")
			}
		})
	}
	b, err := json.Marshal(tool.AsError(fmt.Errorf("x")))
	if err != nil || strings.Contains(string(b), "stack") {
		t.Errorf("got %s, %v", b, err)
	}
}

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
		{"anthropic", r.Anthropic(), `{"type":"tool_result","tool_use_id":"tu_1","content":[{"type":"text","text":"ab"},` +
			`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AQI="}},` +
			`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"Aw=="}}]}`},
		{"openai", r.OpenAI(), `{"role":"tool","tool_call_id":"tu_1","content":"ab"}`},
		{"a failure", tool.Result{ToolUseID: "t", Status: tool.StatusResultRejected, FinalText: "no"}.Anthropic(), `{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"no"}],"is_error":true}`},
		{"no text", tool.Result{ToolUseID: "t", Status: tool.StatusSuccess}.Anthropic(), `{"type":"tool_result","tool_use_id":"t","content":[]}`},
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
		`"SUCCESS"`: tool.StatusSuccess, `"error"`: tool.StatusError, `"execution_rejected"`: tool.StatusExecutionRejected,
		`"RESULT_REJECTED"`: tool.StatusResultRejected, `"not_found"`: tool.StatusNotFound,
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
