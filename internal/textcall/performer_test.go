package textcall

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// toServer is a box that connects to a server of the test, whatever is asked for.
type toServer struct {
	sandbox.Box
	addr string
	to   egress.Connection
	no   bool
}

func (b *toServer) Dial(_ context.Context, to egress.Connection) (net.Conn, error) {
	if b.to = to; b.no {
		return nil, &egress.RefusedError{}
	}
	return net.Dial("tcp", b.addr)
}

func TestC36_AnHTTPRequestOfACallable(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			_, _ = w.Write(make([]byte, 1<<20+1))
		case "/nearly":
			_, _ = io.WriteString(w, strings.Repeat("a", 1<<20-4)+" end")
		case "/fails":
			http.Error(w, "no", http.StatusTeapot)
		case "/moved":
			http.Redirect(w, r, "http://other.example/", http.StatusFound)
		case "/page":
			_, _ = io.WriteString(w, "<html>")
		case "/hangs":
			<-r.Context().Done()
		default:
			body, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, `{"n":12345678901234567890,"said":"`+r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("X-Key")+" "+
				strings.ReplaceAll(string(body), `"`, "'")+`"}`)
		}
	}))
	defer server.Close()
	for _, tt := range []struct{ name, spec, args, want string }{
		{
			"templates", `{"name":"x","url":"http://api.example/v1/{{q}}","method":"POST","headers":{"X-Key":"k {{q}}"},"body":"{\"q\":{{json q}}}"}`,
			`{"q":"a/b c"}`, `"said": "POST /v1/a%2Fb%20c k a/b c {'q':'a/b c'}"`,
		},
		{
			"what is not there", `{"name":"x","url":"http://api.example/a{{q}}b","method":"POST","body":"{\"q\":{{json q}}}"}`,
			`{}`, `"said": "POST /ab  {'q':null}"`,
		},
		{"digits", `{"name":"x","url":"http://api.example/"}`, `{}`, `"n": 12345678901234567890`},
		{"text", `{"name":"x","url":"http://api.example/","response":"text"}`, `{}`, `{"n":123`},
		{"no JSON", `{"name":"x","url":"http://api.example/fails"}`, `{}`, "http_status"},
		{"a page", `{"name":"x","url":"http://api.example/page"}`, `{}`, "not_json"},
		{"an answer that is too large", `{"name":"x","url":"http://api.example/large","response":"text"}`, `{}`, "answer_too_large"},
		{"one that just fits", `{"name":"x","url":"http://api.example/nearly","response":"text"}`, `{}`, "a end"},
		{"it leads on", `{"name":"x","url":"http://api.example/moved"}`, `{}`, "http_status"},
		{"it hangs", `{"name":"x","url":"http://api.example/hangs","timeout_ms":50}`, `{}`, "timeout"},
		{"the host is an argument", `{"name":"x","url":"http://{{h}}/"}`, `{"h":"evil.example/x?"}`, "invalid_arguments"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			box := &toServer{addr: server.Listener.Addr().String()}
			if got := w.call("POST /callables", tt.spec); !strings.HasPrefix(got, "created") {
				t.Fatal(got)
			}
			var host string
			w.do = func(r tool.Request) tool.Result {
				in := tool.In{Args: r.Args, Rules: guard.NewRules(guard.Settings{})}
				uses, err := r.Own.Uses(t.Context(), in)
				var out tool.Output
				if err == nil {
					host = strings.Join(uses.Hosts, " ")
					out, err = r.Own.Run(t.Context(), in, box)
				}
				if e, is := errors.AsType[*tool.Error](err); is {
					return tool.Result{Status: tool.StatusError, FinalText: e.Code}
				} else if err != nil {
					return tool.Result{Status: tool.StatusError, FinalText: err.Error()}
				}
				if spec := r.Own.Spec(); spec.Origin != tool.OriginWeb || spec.Class != tool.ClassNet {
					t.Errorf("got %+v", spec)
				}
				text := tool.Format(r.Own, out, r.Args)
				return tool.Result{Status: tool.StatusSuccess, FinalText: text, FormattedText: text}
			}
			a, err := w.f.reply(t.Context(), tool.Session{ID: "s"}, "[CALL: x("+tt.args+")]", tool.Request{})
			if err != nil || !strings.Contains(a.Message.Content, tt.want) {
				t.Errorf("got %+v, %v", a.Message, err)
			}
			if tt.want != "invalid_arguments" && (host != "api.example" || box.to.Host != host || box.to.Port != 80) {
				t.Errorf("judged %q, connected to %+v", host, box.to)
			}
			// Rules of the network may allow one method and path alone.
			if m, p := box.to.Method, box.to.Path; tt.name == "templates" && (m != "POST" || p != "/v1/a%2Fb%20c") ||
				tt.name == "digits" && (m != "GET" || p != "/") {
				t.Errorf("%s %s is judged", m, p)
			}
		})
	}
	w := newWorld(t)
	w.call("POST /callables", `{"name":"x","url":"https://api.example/"}`)
	box := &toServer{no: true}
	w.do = func(r tool.Request) tool.Result {
		_, err := r.Own.Run(t.Context(), tool.In{Args: r.Args, Rules: guard.NewRules(guard.Settings{})}, box)
		if e, is := errors.AsType[*tool.Error](err); !is || e.Code != "host_denied" || box.to.Port != 443 {
			t.Errorf("got %v, %+v", err, box.to)
		}
		return tool.Result{}
	}
	w.reply("[CALL: x]")
}

// TestWhatACallableIsToPolicies: a text is the words of the model, and a request goes to the web.
func TestWhatACallableIsToPolicies(t *testing.T) {
	for _, tt := range []struct {
		c           Callable
		origin      tool.Origin
		class       tool.Class
		readOnly    bool
		destructive bool
		openWorld   bool
	}{
		{Callable{Type: typeStatic}, tool.OriginModel, tool.ClassState, true, false, false},
		{Callable{Type: typeNone}, tool.OriginModel, tool.ClassState, true, false, false},
		{Callable{Type: typeHTTP, Method: "GET"}, tool.OriginWeb, tool.ClassNet, false, false, true},
		{Callable{Type: typeHTTP, Method: "DELETE"}, tool.OriginWeb, tool.ClassNet, false, true, true},
	} {
		s := performer{tt.c, "x"}.Spec()
		if a := s.Annotations; s.Origin != tt.origin || s.Class != tt.class || s.ReadOnly != tt.readOnly ||
			a.ReadOnly != tt.readOnly || a.Destructive != tt.destructive || a.OpenWorld != tt.openWorld {
			t.Errorf("%+v: got %+v, %+v", tt.c, s, *a)
		}
	}
}

// A call by text is made by whoever sent the reply, with all of their identity.
func TestACallByTextHasTheIdentityOfItsCaller(t *testing.T) {
	w := newWorld(t)
	me := route.Caller{Account: "a", Role: tool.RoleAgent, UID: 7, GID: 8, Groups: []int{9}, Name: "ann", Home: "/home/ann"}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"role":"assistant","content":"[CALL: Read({})]"}`))
	r.SetPathValue("id", "s")
	if _, err := w.f.replyRoute(r.WithContext(route.WithCaller(r.Context(), me))); err != nil || len(w.reqs) != 1 {
		t.Fatalf("%v, %d calls", err, len(w.reqs))
	}
	want := &tool.Identity{UID: 7, GID: 8, Groups: []int{9}, Name: "ann", Home: "/home/ann"}
	if got := w.reqs[0]; !reflect.DeepEqual(got.By, want) || got.Account != "a" || got.Role != tool.RoleAgent {
		t.Errorf("got %+v of %+v, want %+v", got.By, got, want)
	}
}
