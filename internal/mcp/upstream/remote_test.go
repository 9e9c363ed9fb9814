package upstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/internal/mcp/upstream"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// TestM07_BothKindsOfRemoteServers: a server of type sse answers by the events of one long connection, and one of type
// http in the answers to requests. Neither is spoken to as the other, and neither is offered roots, sampling or
// questions.
func TestM07_BothKindsOfRemoteServers(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "echo"}, nil)
	srv.AddTool(&mcp.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if p := r.Session.InitializeParams(); p == nil || !reflect.DeepEqual(p.Capabilities, &mcp.ClientCapabilities{}) {
				t.Errorf("the server was told %+v", p)
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "answer"}}}, nil
		})
	server := func(*http.Request) *mcp.Server { return srv }
	for name, web := range map[string]http.Handler{
		"sse": mcp.NewSSEHandler(server, nil), "http": mcp.NewStreamableHTTPHandler(server, nil),
		"json": mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{JSONResponse: true}),
	} {
		t.Run(name, func(t *testing.T) {
			at := httptest.NewServer(web)
			t.Cleanup(at.Close) // after the connection, which it waits for
			u, err := url.Parse(at.URL)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			conn, err := upstream.Remote(ctx, ctx, upstream.Options{}, address(u, name == "sse"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			answer, err := conn.Call(ctx, "echo", []byte(`{}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			if text, _ := answer.Content[0].(*mcp.TextContent); text == nil || text.Text != "answer" {
				t.Errorf("got %+v", answer)
			}
		})
	}
}

// address is that of a server of a test.
func address(u *url.URL, push bool) upstream.Address {
	return upstream.Address{
		URL: u, Push: push,
		Header: func(context.Context) (http.Header, []string, error) { return nil, nil, nil },
		Dial: func(ctx context.Context, to egress.Connection) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(to.Host, strconv.Itoa(to.Port)))
		},
	}
}

// A server of type sse says itself where messages go, and one of type http may lead on. Another host, port or scheme is
// asked nothing.
func TestM07_OnlyTheHostOfTheAddressIsAsked(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(other.Close)
	for name, elsewhere := range map[string]func(own *url.URL) string{
		"another port":   func(*url.URL) string { return other.URL },
		"another host":   func(own *url.URL) string { return "http://localhost:" + own.Port() },
		"another scheme": func(own *url.URL) string { return "https://" + own.Host },
	} {
		for _, push := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", sse: ", push), func(t *testing.T) {
				var own *url.URL
				at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/messages" {
						asked.Add(1)
					}
					if !push {
						http.Redirect(w, r, elsewhere(own)+"/messages", http.StatusTemporaryRedirect)
						return
					}
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", elsewhere(own))
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}))
				t.Cleanup(at.Close)
				var err error
				if own, err = url.Parse(at.URL); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				conn, err := upstream.Remote(ctx, ctx, upstream.Options{}, address(own, push))
				if err == nil {
					conn.Close()
				}
				if err == nil || !strings.Contains(err.Error(), "only its own host is asked") || asked.Load() != 0 {
					t.Errorf("got %v, the other host was asked %d times", err, asked.Load())
				}
			})
		}
	}
}

// What is judged is the connection to the address of the configuration, with its path.
func TestX13_TheConnectionToAServerIsJudged(t *testing.T) {
	no := errors.New("no")
	for text, want := range map[string]egress.Connection{
		"http://a.test":            {Host: "a.test", Port: 80, Protocol: egress.ProtocolHTTP, Path: "/"},
		"http://a.test:8080/m%2fx": {Host: "a.test", Port: 8080, Protocol: egress.ProtocolHTTP, Path: "/m%2fx"},
		"https://a.test/mcp":       {Host: "a.test", Port: 443, Protocol: egress.ProtocolTLS, Path: "/mcp"},
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		want.Method, want.Via = http.MethodPost, egress.ViaFetch
		a := address(u, false)
		var judged []egress.Connection
		a.Dial = func(_ context.Context, to egress.Connection) (net.Conn, error) {
			judged = append(judged, to)
			return nil, no
		}
		conn, err := upstream.Remote(t.Context(), t.Context(), upstream.Options{}, a)
		if err == nil {
			conn.Close()
		}
		if err == nil || len(judged) == 0 || judged[0] != want {
			t.Errorf("%s: judged %+v, %v, want %+v", text, judged, err, want)
		}
	}
}

// remote is a connection to a server over HTTP, with a header.
func remote(t *testing.T, srv *mcp.Server, hide ...string) *upstream.Conn {
	t.Helper()
	at := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	t.Cleanup(at.Close)
	u, err := url.Parse(at.URL)
	if err != nil {
		t.Fatal(err)
	}
	a := address(u, false)
	a.Header = func(context.Context) (http.Header, []string, error) {
		return http.Header{"X-Key": {"secret-0123456789"}}, hide, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for what hangs
	t.Cleanup(cancel)
	conn, err := upstream.Remote(ctx, ctx, upstream.Options{}, a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// A server that repeats the secret of a header does not show it to a model.
func TestASecretOfAHeaderIsMaskedInAnswers(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "echo"}, nil)
	srv.AddTool(&mcp.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if c := r.Session.InitializeParams().ClientInfo; c == nil || c.Name != "sandboxd" {
				t.Errorf("the client is %+v", c)
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: r.Extra.Header.Get("X-Key")}}}, nil
		})
	for _, tt := range []struct {
		hide []string
		want string
	}{{nil, "secret-0123456789"}, {[]string{"secret-0123456789"}, "*****************"}} {
		answer, err := remote(t, srv, tt.hide...).Call(t.Context(), "echo", []byte(`{}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := answer.Content[0].(*mcp.TextContent).Text; got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// Progress of a call is passed on as text, that of others is not.
func TestProgressOfACall(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "slow"}, nil)
	all := make(chan struct{})
	srv.AddTool(&mcp.Tool{Name: "slow", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			token := r.Params.GetProgressToken()
			for _, p := range []mcp.ProgressNotificationParams{
				{ProgressToken: token, Progress: 1},
				{ProgressToken: "another", Progress: 1},
				{ProgressToken: token, Progress: 2, Total: 3},
				{ProgressToken: token, Progress: 2.5, Message: strings.Repeat("x", 300)},
			} {
				if token != nil {
					if err := r.Session.NotifyProgress(ctx, &p); err != nil {
						return nil, err
					}
				}
			}
			if token != nil { // the client may hear of the end first
				select {
				case <-all:
				case <-ctx.Done():
				}
			}
			return &mcp.CallToolResult{}, nil
		})
	conn := remote(t, srv)
	var got []string
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := conn.Call(ctx, "slow", []byte(`{}`), func(text string) {
		if got = append(got, text); len(got) == 3 {
			close(all)
		}
	})
	if err != nil {
		t.Error(err)
	}
	if want := []string{"1", "2/3", "2.5 " + strings.Repeat("x", 200)}; !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
	if _, err := conn.Call(t.Context(), "slow", []byte(`{}`), nil); err != nil { // nobody wants to hear of it
		t.Error(err)
	}
}

// A server may have so many tools, and is not asked for what it does not say that it has.
func TestAServerHasSoManyTools(t *testing.T) {
	for _, tt := range []struct {
		tools int
		ok    bool
	}{{500, true}, {501, false}} {
		srv := mcp.NewServer(&mcp.Implementation{Name: "many"}, &mcp.ServerOptions{
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		})
		srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
				switch method {
				case "tools/list":
					list := &mcp.ListToolsResult{}
					for i := range tt.tools {
						list.Tools = append(list.Tools, &mcp.Tool{Name: fmt.Sprint("t", i), InputSchema: map[string]any{"type": "object"}})
					}
					return list, nil
				case "resources/list":
					t.Error("it is asked for resources")
				}
				return next(ctx, method, r)
			}
		})
		conn := remote(t, srv)
		all, err := conn.Tools(t.Context())
		if (err == nil) != tt.ok || tt.ok && len(all) != tt.tools || err != nil && !strings.Contains(err.Error(), "more than 500 tools") {
			t.Errorf("%d tools: got %d, %v", tt.tools, len(all), err)
		}
		if r, err := conn.Resources(t.Context()); r != nil || err != nil {
			t.Errorf("resources: %v, %v", r, err)
		}
	}
}

// A list that has no end is refused, by what it is too long in. An element that is null is left out.
func TestAListHasBounds(t *testing.T) {
	for _, tt := range []struct {
		name             string
		perPage, pages   int // elements, pages
		null             bool
		tools, resources string // what the errors say; "" for none
	}{
		{"100 pages", 1, 100, false, "", ""},
		{
			"short pages without end", 1, 1000, false, "its list of tools has more than 100 pages",
			"its list of resources has more than 100 pages",
		},
		{"empty pages without end", 0, 1000, false, "more than 100 pages", "more than 100 pages"},
		{"many elements", 2501, 2, false, "it offers more than 500 tools", "it offers more than 5000 resources"},
		{"null", 1, 1, true, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := mcp.NewServer(&mcp.Implementation{Name: "long"}, &mcp.ServerOptions{
				Capabilities: &mcp.ServerCapabilities{
					Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{},
				},
			})
			asked := 0
			next := func() string {
				if asked++; asked%tt.pages == 0 {
					return ""
				}
				return "more"
			}
			srv.AddReceivingMiddleware(func(h mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
					switch method {
					case "tools/list":
						list := &mcp.ListToolsResult{NextCursor: next(), Tools: make([]*mcp.Tool, tt.perPage)}
						for i := range list.Tools {
							if !tt.null {
								list.Tools[i] = &mcp.Tool{Name: fmt.Sprint("t", i), InputSchema: map[string]any{"type": "object"}}
							}
						}
						return list, nil
					case "resources/list":
						list := &mcp.ListResourcesResult{NextCursor: next(), Resources: make([]*mcp.Resource, tt.perPage)}
						for i := range list.Resources {
							if !tt.null {
								list.Resources[i] = &mcp.Resource{Name: fmt.Sprint("r", i), URI: fmt.Sprint("x:", i)}
							}
						}
						return list, nil
					}
					return h(ctx, method, r)
				}
			})
			conn := remote(t, srv)
			check := func(what, want string, n int, err error) {
				all := tt.perPage * tt.pages
				if tt.null {
					all = 0
				}
				if want == "" && (err != nil || n != all) ||
					want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s: got %d, %v, want %q", what, n, err, want)
				}
				if asked > 100 {
					t.Errorf("%s: %d pages were asked for", what, asked)
				}
				asked = 0
			}
			tools, err := conn.Tools(t.Context())
			check("tools", tt.tools, len(tools), err)
			resources, err := conn.Resources(t.Context())
			check("resources", tt.resources, len(resources), err)
		})
	}
}

// A panic of whoever hears of changes does not end the process, with a log or without one.
func TestAPanicOfAHandlerIsCaught(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "changes"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	object := map[string]any{"type": "object"}
	answer := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	}
	srv.AddTool(&mcp.Tool{Name: "first", InputSchema: object}, answer)
	at := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	t.Cleanup(at.Close)
	u, err := url.Parse(at.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for what hangs
	defer cancel()
	told := make(chan struct{}, 10)
	o := upstream.Options{Changed: func() {
		told <- struct{}{}
		panic("a mistake")
	}}
	conn, err := upstream.Remote(ctx, ctx, o, address(u, false))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 2 { // the second shows that the first has passed
		srv.AddTool(&mcp.Tool{Name: fmt.Sprint("more", i), InputSchema: object}, answer)
		select {
		case <-told:
		case <-ctx.Done():
			t.Fatal("the change is not announced")
		}
	}
	if tools, err := conn.Tools(ctx); err != nil || len(tools) != 3 {
		t.Errorf("got %d tools, %v", len(tools), err)
	}
}

// TestAnAnswerIsBounded: whatever a server says that its answer is, no more of it is read than a message may have.
func TestAnAnswerIsBounded(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			t.Run(fmt.Sprint(status, " ", kind), func(t *testing.T) {
				const most = 64 << 20
				var sent atomic.Int64
				at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", kind)
					w.WriteHeader(status)
					for part := bytes.Repeat([]byte("x"), 64<<10); sent.Load() < most; {
						n, err := w.Write(part)
						if sent.Add(int64(n)); err != nil {
							return
						}
					}
				}))
				t.Cleanup(at.Close)
				u, err := url.Parse(at.URL)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				conn, err := upstream.Remote(ctx, ctx, upstream.Options{Line: 1 << 20}, address(u, false))
				if err == nil {
					conn.Close()
					t.Error("it is a server")
				}
				if sent.Load() >= most { // what the kernel holds of a connection is much less
					t.Errorf("all %d bytes are read", sent.Load())
				}
			})
		}
	}
}

// TestAListHasSoManyBytes: 32 MiB in all its pages.
func TestAListHasSoManyBytes(t *testing.T) {
	description := strings.Repeat("x", 4<<20)
	left := 0 // pages, which one request after the other reads
	srv := mcp.NewServer(&mcp.Implementation{Name: "long"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method != "tools/list" {
				return next(ctx, method, r)
			}
			page := &mcp.ListToolsResult{NextCursor: "more", Tools: []*mcp.Tool{{
				Name: fmt.Sprint("t", left), Description: description, InputSchema: map[string]any{"type": "object"},
			}}}
			if left--; left == 0 {
				page.NextCursor = ""
			}
			return page, nil
		}
	})
	at := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	t.Cleanup(at.Close)
	u, err := url.Parse(at.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := upstream.Remote(t.Context(), t.Context(), upstream.Options{}, address(u, false))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	left = 7
	if tools, err := conn.Tools(t.Context()); err != nil || len(tools) != 7 {
		t.Errorf("28 MiB: %d tools, %v", len(tools), err)
	}
	left = 9
	if _, err := conn.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 32 MiB") {
		t.Errorf("36 MiB: %v", err)
	}
}
