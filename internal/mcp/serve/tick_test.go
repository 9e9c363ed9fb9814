package serve

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
)

// Some clients give up after 60 s of silence, so one that wants progress hears of its call every ten seconds, also
// while nothing happens.
func TestM24_ALongCallGivesASignOfLifeEveryTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Face
		r := &running{cancel: func(error) {}, news: make(chan client.Progress), done: make(chan struct{}), note: "running"}
		r.result = client.Result{Status: client.StatusSuccess, FinalText: "done"}
		srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
		srv.AddTool(&mcp.Tool{Name: "Bash", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return f.follow(ctx, req, r, "")
			})
		a, b := mcp.NewInMemoryTransports()
		served, err := srv.Connect(t.Context(), a, nil)
		if err != nil {
			t.Fatal(err)
		}
		var heard atomic.Int64
		c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
			ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { heard.Add(1) },
		})
		s, err := c.Connect(t.Context(), b, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := &mcp.CallToolParams{Name: "Bash"}
		p.SetProgressToken("t")
		ended := make(chan *mcp.CallToolResult, 1)
		go func() {
			r, err := s.CallTool(t.Context(), p)
			if err != nil {
				t.Error(err)
			}
			ended <- r
		}()
		for want := range int64(7) {
			if synctest.Wait(); heard.Load() != want {
				t.Errorf("after %d s the client has heard %d times", 10*want, heard.Load())
			}
			time.Sleep(10 * time.Second)
		}
		close(r.done)
		if r := <-ended; r == nil || r.IsError {
			t.Errorf("the call ends with %+v", r)
		}
		s.Close()
		served.Close()
	})
}
