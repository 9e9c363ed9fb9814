package provider_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/sandboxd/sandboxd/agent/provider"
)

// A server that speaks the API of OpenAI; its answer has the form of Anthropic's.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"It is "}}]}`+"\n\n")
		io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"noon."},"finish_reason":"stop"}]}`+"\n\n")
		io.WriteString(w, "data: [DONE]\n\n")
	}))
	defer server.Close()
	c, err := provider.New(provider.Server{Provider: "openai", BaseURL: server.URL, Key: "secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.Send(context.Background(), provider.Request{
		Model: "small", MaxTokens: 100, Messages: []provider.Message{provider.UserText("What time is it?")},
	})
	fmt.Println(answer.Content.Text(), answer.StopReason, err)
	// Output: It is noon. end_turn <nil>
}
