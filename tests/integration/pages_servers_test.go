package integration

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// pageServers are the servers of docs/network.md: WEB has a page, and API, over TLS with a
// certificate that CA signs, says who it thinks is there.
func pageServers(t testing.TB) []string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "a page of", r.Host)
	}))
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("Authorization")
		if got != "Bearer token-of-ada" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "hello ada, you sent %s\n", got)
	}))
	certificate, ca := certificates(t, "api.example")
	api.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	api.StartTLS()
	t.Cleanup(func() { web.Close(); api.Close() })
	dir, err := newDir(bin, "ca-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"WEB=" + web.Listener.Addr().String(), "API=" + api.Listener.Addr().String(), "CA=" + file}
}

// pageModel is the model of docs/agent.md, as a server of chat completions: it lists the files,
// then says that there is one test.
func pageModel(t testing.TB) []string {
	t.Helper()
	var asked atomic.Int32
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		delta, why := `{"content":"One: add_test.go."}`, "stop"
		if asked.Add(1) == 1 {
			delta, why = `{"tool_calls":[{"index":0,"id":"c1","type":"function",`+
				`"function":{"name":"Bash","arguments":"{\"command\": \"ls *_test.go\"}"}}]}`, "tool_calls"
		}
		const chunk = `data: {"id":"m1","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s],"usage":%s}` + "\n\n"
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, chunk, `{"index":0,"delta":`+delta+`,"finish_reason":null}`, "null")
		fmt.Fprintf(w, chunk, `{"index":0,"delta":{},"finish_reason":"`+why+`"}`, "null")
		fmt.Fprintf(w, chunk, "", `{"prompt_tokens":900,"completion_tokens":20,"total_tokens":920}`)
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(model.Close)
	return []string{"MODEL=" + model.URL + "/v1", "OPENAI_API_KEY=none"}
}
