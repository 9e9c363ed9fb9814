package serve_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/mcp/serve"
)

// broken panics for what is no list.
type broken struct{}

func (broken) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	switch {
	case strings.HasSuffix(r.URL.Path, "/tools"):
		body = `{"data":` + oneTool + `}`
	case strings.HasSuffix(r.URL.Path, "/skills"):
		body = `{"data":[{"name":"review","user_invocable":true,"available":true}]}`
	case strings.HasSuffix(r.URL.Path, "/events"):
		<-r.Context().Done()
		return nil, r.Context().Err()
	default:
		panic("broken")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// What panics fails its request alone: the SDK would let the process end.
func TestAPanicFailsOneRequest(t *testing.T) {
	f, err := serve.New(t.Context(), serve.Options{API: client.Over(broken{}), Session: "s1", Version: "v1", Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	for _, version := range versions {
		c := connect(t, f, nil, version)
		if r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "Bash"}); err != nil || !r.IsError {
			t.Errorf("%s: a call that panicked: %v, %v", version, r, err)
		}
		failed := func(err error) bool {
			e, ok := errors.AsType[*jsonrpc.Error](err)
			return ok && e.Code == jsonrpc.CodeInternalError && strings.Contains(e.Message, "this request failed in sandboxd")
		}
		if r, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "review"}); !failed(err) {
			t.Errorf("%s: a prompt that panicked: %v, %v", version, r, err)
		}
		if r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "var://s1/x"}); !failed(err) {
			t.Errorf("%s: a resource that panicked: %v, %v", version, r, err)
		}
		if r, err := c.ListTools(t.Context(), nil); err != nil || len(r.Tools) != 1 {
			t.Errorf("%s: afterwards: %v, %v", version, r, err)
		}
	}
}
