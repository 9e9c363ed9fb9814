package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// versions are one of each era: with a session, and without.
var versions = []string{"2025-11-25", "2026-07-28"}

func text(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	var b strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// A model is shown the text that the daemon made for it, and no data beside it.
func TestM24_ResultsAreTextFirstAndNeverStructured(t *testing.T) {
	s := &standIn{calls: func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		sse(w, "end", `{"status":"SUCCESS","final_text":"cut [kept in X_result]","data":{"stdout":"whole"},`+
			`"is_truncated":true,"cache_var_result":"X_result","content":[{"type":"image","data":"AAAA","mime_type":"image/png"}]}`)
	}}
	f := s.face(t)
	for _, version := range versions {
		c := connect(t, f, nil, version)
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "Bash"})
		if err != nil {
			t.Fatal(version, err)
		}
		kinds := []string{}
		for _, c := range r.Content {
			kinds = append(kinds, fmt.Sprintf("%T", c))
		}
		want := []string{"*mcp.TextContent", "*mcp.ResourceLink", "*mcp.ImageContent"}
		if !slices.Equal(kinds, want) || r.StructuredContent != nil || r.IsError {
			t.Errorf("%s: content %v, structured %v, error %t", version, kinds, r.StructuredContent, r.IsError)
		}
		if link, ok := r.Content[1].(*mcp.ResourceLink); !ok || link.URI != "var://s1/X_result" {
			t.Errorf("%s: the link is %+v", version, r.Content[1])
		}
	}
}

// What the text has whole needs no link, though it is kept as a variable too.
func TestM24_OnlyATextThatWasCutHasALink(t *testing.T) {
	for _, more := range []string{
		`"cache_var_result":"X_result"`,
		`"is_truncated":true`, // and kept nowhere
	} {
		s := &standIn{calls: func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			sse(w, "end", `{"status":"SUCCESS","final_text":"text",`+more+`}`)
		}}
		r, err := connect(t, s.face(t), nil, versions[0]).CallTool(t.Context(), &mcp.CallToolParams{Name: "Bash"})
		if err != nil || len(r.Content) != 1 || text(t, r) != "text" {
			t.Errorf("%s: got %+v, %v", more, r, err)
		}
	}
}

func TestM25_AnErrorIsAResultWithMessageAndHint(t *testing.T) {
	s := &standIn{calls: func(w http.ResponseWriter, _ *http.Request, args json.RawMessage) {
		if string(args) == "{}" {
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"error":{"code":"account_busy","message":"too much at once","hint":"wait a little"}}`)
			return
		}
		sse(w, "end", `{"status":"ERROR","final_text":"Invalid email: 'x' missing '@'","error":{"code":"e","message":"m"}}`)
	}}
	c := connect(t, s.face(t), nil, "2025-11-25")
	for _, tt := range []struct{ args, want string }{
		{`{"email":"x"}`, "Invalid email: 'x' missing '@'"},
		{`{}`, "too much at once\nHint: wait a little"},
	} {
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "Bash", Arguments: json.RawMessage(tt.args)})
		if err != nil {
			t.Fatal(err)
		}
		if !r.IsError || text(t, r) != tt.want {
			t.Errorf("%s: error %t, %q; want %q", tt.args, r.IsError, text(t, r), tt.want)
		}
	}
}

// A resource is a variable of this session; what keeps it from being read is told in the words of the daemon.
func TestM24_AResourceIsAVariableOfThisSession(t *testing.T) {
	s := &standIn{calls: func(w http.ResponseWriter, _ *http.Request, args json.RawMessage) {
		answer := func(result string) { fmt.Fprintf(w, `{"data":%s}`, result) }
		switch string(args) {
		case `{"limit":0,"name":"list"}`:
			answer(`{"status":"SUCCESS","final_text":"[1,2]","data":[1,2]}`)
		case `{"limit":0,"name":"text"}`:
			answer(`{"status":"SUCCESS","final_text":"cut","data":"whole"}`)
		case `{"limit":0,"name":"late"}`:
			answer(`{"status":"CANCELLED"}`)
		case `{"limit":0,"name":"none"}`:
			answer(`{"status":"ERROR","error":{"code":"variable_not_found","message":"m"}}`)
		default:
			answer(`{"status":"ERROR","error":{"code":"e","message":"a rule denies it","hint":"ask a person"}}`)
		}
	}}
	c := connect(t, s.face(t), nil, "2025-11-25")
	for uri, want := range map[string]string{
		"var://s1/text": "whole", "var://s1/list": "[1,2]", "var://s1/late": "CANCELLED",
		"var://s1/denied": "a rule denies it\nHint: ask a person", "var://s1/none": "Resource not found",
		"var://other/text": "Resource not found", "var://s1/": "Resource not found",
	} {
		r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		got := fmt.Sprint(err)
		if err == nil {
			got = r.Contents[0].Text
			if r.Contents[0].URI != uri || r.Contents[0].MIMEType != "text/plain" {
				t.Errorf("%s: got %+v", uri, r.Contents[0])
			}
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", uri, got, want)
		}
	}
}

// The daemon's strict decoder sees what the client sent: repeated keys, large numbers, their order.
func TestArgumentsPassUntouched(t *testing.T) {
	got := make(chan string, 1)
	s := &standIn{calls: func(w http.ResponseWriter, _ *http.Request, args json.RawMessage) {
		got <- string(args)
		sse(w, "end", `{"status":"SUCCESS"}`)
	}}
	const sent = `{"b":1,"a":12345678901234567890,"a":2,"B":"\ud800"}`
	c := connect(t, s.face(t), nil, "2025-11-25")
	if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "Bash", Arguments: json.RawMessage(sent)}); err != nil {
		t.Fatal(err)
	}
	if g := <-got; g != sent {
		t.Errorf("the daemon got %s, the client sent %s", g, sent)
	}
}

// A client reads who serves it, what there is, and what each tool says of itself.
func TestM24_WhatAClientIsTold(t *testing.T) {
	s := &standIn{
		tools: `[{"name":"Read","title":"Reads","description":"a file","inputSchema":{"type":"object"},` +
			`"annotations":{"readOnlyHint":true}}]`,
		skills: `[{"name":"fine","description":"what it is for","user_invocable":true,"available":true}]`,
	}
	f := s.face(t)
	for _, version := range versions {
		c := connect(t, f, nil, version)
		init := c.InitializeResult()
		if i := init.ServerInfo; i == nil || i.Name != "sandboxd" || i.Title != "sandboxd" || i.Version != "v1" ||
			!strings.Contains(init.Instructions, "judged by the rules of sandboxd") {
			t.Errorf("%s: the server is %+v: %q", version, i, init.Instructions)
		}
		can, err := json.Marshal(init.Capabilities)
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"prompts":{"listChanged":true},"resources":{},"tools":{"listChanged":true}}`; string(can) != want {
			t.Errorf("%s: it can %s, want %s", version, can, want)
		}
		tools, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if x := tools.Tools[0]; x.Title != "Reads" || x.Description != "a file" || x.Annotations == nil || !x.Annotations.ReadOnlyHint {
			t.Errorf("%s: the tool is %+v", version, x)
		}
		prompts, err := c.ListPrompts(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if p := prompts.Prompts[0]; p.Name != "fine" || p.Description != "what it is for" || p.Arguments != nil {
			t.Errorf("%s: the prompt is %+v", version, p)
		}
		templates, err := c.ListResourceTemplates(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r := templates.ResourceTemplates[0]; r.Name != "variables" || r.URITemplate != "var://s1/{+name}" ||
			r.MIMEType != "text/plain" || !strings.Contains(r.Description, "ListVars lists them") {
			t.Errorf("%s: the resources are %+v", version, r)
		}
	}
}

// A client that wants progress is told what the program prints. The daemon sends it to nobody else.
func TestM24_ProgressIsForWhoWantsIt(t *testing.T) {
	asked := make(chan string, 2)
	s := &standIn{calls: func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		asked <- r.URL.RawQuery
		sse(w, "end", `{"status":"SUCCESS"}`)
	}}
	c := connect(t, s.face(t), nil, versions[0])
	for _, tt := range []struct {
		token any
		query string
	}{{nil, "output=false"}, {"t", ""}} {
		p := &mcp.CallToolParams{Name: "Bash"}
		if tt.token != nil {
			p.SetProgressToken(tt.token)
		}
		if _, err := c.CallTool(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got := <-asked; got != tt.query {
			t.Errorf("with the token %v the daemon is asked %q, want %q", tt.token, got, tt.query)
		}
	}
}

// A tool that the SDK would panic about is left out; the others are there.
func TestABrokenSchemaIsLeftOut(t *testing.T) {
	s := &standIn{tools: `[{"name":"A","inputSchema":null},{"name":"B"},{"name":"C","inputSchema":{"type":"array"}},` +
		`{"name":"D","inputSchema":{"type":"object"}},{"name":"ToolSearch","inputSchema":{"type":"object"}}]`}
	c := connect(t, s.face(t), nil, "2025-11-25")
	r, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tools) != 1 || r.Tools[0].Name != "D" {
		t.Errorf("tools %v, want D alone", r.Tools)
	}
	if r.CacheScope != "private" {
		t.Errorf("the list may be cached by %q", r.CacheScope)
	}
}

func TestAListThatChangesIsAnnounced(t *testing.T) {
	s := &standIn{}
	changed, prompts := make(chan struct{}, 8), make(chan struct{}, 8)
	c := connect(t, s.face(t), &mcp.ClientOptions{
		ToolListChangedHandler:   func(_ context.Context, _ *mcp.ToolListChangedRequest) { changed <- struct{}{} },
		PromptListChangedHandler: func(_ context.Context, _ *mcp.PromptListChangedRequest) { prompts <- struct{}{} },
	}, "2025-11-25")
	for event, name := range map[string]string{"session_changed": "Read", "reload": "Write"} {
		s.mu.Lock()
		s.tools = fmt.Sprintf(`[{"name":%q,"inputSchema":{"type":"object"}}]`, name)
		s.mu.Unlock()
		s.events <- event
		<-changed
		r, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Tools) != 1 || r.Tools[0].Name != name {
			t.Errorf("after %s: tools %v, want %s alone", event, r.Tools, name)
		}
	}
	// The skills that users may begin, and of those the ones that are there.
	s.mu.Lock()
	s.skills = `[{"name":"fine","user_invocable":true,"available":true,"argument_hint":"[words]"},` +
		`{"name":"inner","user_invocable":false,"available":true},` +
		`{"name":"away","user_invocable":true,"available":false}]`
	s.mu.Unlock()
	s.events <- "session_changed"
	<-prompts
	r, err := c.ListPrompts(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Prompts) != 1 || r.Prompts[0].Name != "fine" || r.Prompts[0].Arguments[0].Description != "[words]" {
		t.Errorf("prompts %v, want fine alone", r.Prompts)
	}
}

// What a cancelled request was running is cancelled, and nothing else ends.
func TestACancelledRequestEndsItsCall(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	s := &standIn{calls: func(w http.ResponseWriter, r *http.Request, args json.RawMessage) {
		if string(args) == "{}" {
			sse(w, "end", `{"status":"SUCCESS","final_text":"still here"}`)
			return
		}
		sse(w, "begin", `{"call_id":"c1","tool":"Bash"}`)
		close(began)
		<-r.Context().Done()
		close(ended)
	}}
	c := connect(t, s.face(t), nil, "2025-11-25")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "Bash", Arguments: json.RawMessage(`{"command":"sleep"}`)})
	if err == nil {
		t.Error("the cancelled call has a result")
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the daemon still runs the call")
	}
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "Bash"})
	if err != nil || text(t, r) != "still here" {
		t.Errorf("the next call: %v, %v", r, err)
	}
}
