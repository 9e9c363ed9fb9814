package route_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// asked is the body of a request.
type asked struct {
	Name  string         `json:"name"`
	Count int            `json:"count,omitempty"`
	Parts []part         `json:"parts,omitempty"`
	Map   map[string]int `json:"map,omitempty"`
}

type part struct {
	ID string `json:"id"`
}

func status(err error) int {
	if e, ok := errors.AsType[route.Error](err); ok {
		return e.Status
	}
	return 0
}

func TestABodyIsReadStrictly(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"all fields", `{"name": "a", "count": 2, "parts": [{"id": "x"}], "map": {"any": 1}}`, ""},
		{"what may be left out", ` {"name": "a"} `, ""},
		{"nothing", "", "name is missing"},
		{"null", `{"name": null}`, "name is missing"},
		{"an unknown field", `{"name": "a", "nam": "b"}`, `unknown field "nam"`},
		{"another case", `{"Name": "a"}`, "name is missing"},
		{"a field in a list", `{"name": "a", "parts": [{"id": "x"}, {"it": "y"}]}`, "parts[1].id is missing"},
		{"an unknown field in a list", `{"name": "a", "parts": [{"id": "x", "y": 1}]}`, `unknown field "parts[0].y"`},
		{"a field twice", `{"name": "a", "name": "b"}`, "malformed JSON"},
		{"two values", `{"name": "a"} {}`, "malformed JSON"},
		{"half a value", `{"name": `, "malformed JSON"},
		{"a list", `[]`, "the body must be a JSON object"},
		{"a wrong type", `{"name": "a", "count": "two"}`, "count must be whole number, not string"},
		{"a wrong type of a list", `{"name": "a", "parts": {}}`, "parts must be list, not object"},
		{"a wrong type of an object", `{"name": "a", "map": 1}`, "map must be object, not number"},
		{"a wrong type in a list", `{"name": "a", "parts": [1]}`, "parts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var v asked
			err := route.Read(httptest.NewRequest("POST", "/", strings.NewReader(tt.body)), &v)
			if tt.want == "" && (err != nil || v.Name != "a") {
				t.Errorf("%+v, %v", v, err)
			}
			if tt.want != "" && (status(err) != 400 || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want a 400 about %q", err, tt.want)
			}
		})
	}
}

// without is a body of which nobody says how long it is.
type without struct{ io.Reader }

func TestALargeBodyIsRefused(t *testing.T) {
	large := bytes.Repeat([]byte(" "), route.MaxBody+1)
	for name, body := range map[string]io.Reader{
		"of a known length": bytes.NewReader(large), "of an unknown length": without{bytes.NewReader(large)},
	} {
		err := route.Read(httptest.NewRequest("POST", "/", body), &asked{})
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "too_large" || status(err) != 413 {
			t.Errorf("%s: %v, want 413 too_large", name, err)
		}
	}
	most := append([]byte(`{"name": "a"}`), large[:route.MaxBody-13]...)
	for name, body := range map[string]io.Reader{
		"of a known length": bytes.NewReader(most), "of an unknown length": without{bytes.NewReader(most)},
	} {
		if err := route.Read(httptest.NewRequest("POST", "/", body), &asked{}); err != nil {
			t.Errorf("%s, as large as may be: %v", name, err)
		}
	}
	for name, tt := range map[string]struct {
		body io.Reader
		want int
	}{
		"breaks off":      {&failing{errors.New("connection reset")}, 400},
		"ends too early":  {io.LimitReader(&failing{io.EOF}, 0), 400},
		"does not arrive": {&failing{os.ErrDeadlineExceeded}, 408},
	} {
		r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("{"), tt.body))
		if r.ContentLength = -1; name == "ends too early" {
			r.ContentLength = 20
		}
		if err := route.Read(r, &asked{}); status(err) != tt.want {
			t.Errorf("a body that %s: %v, want %d", name, err, tt.want)
		}
	}
}

// A bound holds also where it is smaller than what is read at once of a body of unknown length.
func TestASmallBoundOfABodyHolds(t *testing.T) {
	for _, most := range []int64{0, 1, 100, 64<<10 - 1, 64 << 10, 64<<10 + 1} {
		for _, more := range []int64{0, 1, 2, 1 << 10} {
			body := strings.Repeat(" ", int(most+more))
			for name, in := range map[string]io.Reader{
				"of a known length": strings.NewReader(body), "of an unknown length": without{strings.NewReader(body)},
			} {
				var none struct{}
				err := route.ReadUpTo(httptest.NewRequest("POST", "/", in), &none, most)
				if more == 0 && err != nil || more > 0 && status(err) != http.StatusRequestEntityTooLarge {
					t.Errorf("%d bytes %s where %d may be: %v", most+more, name, most, err)
				}
			}
		}
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// A body of unknown length is read in steps, and is held once when it is there.
func TestABodyOfUnknownLengthIsHeldOnce(t *testing.T) {
	const length = 300 << 10
	b := budget.New(budget.Limits{Bytes: 64 << 20})
	h, err := b.Request("a")
	if err != nil {
		t.Fatal(err)
	}
	before := b.Use().Bytes
	r := httptest.NewRequest("POST", "/", without{strings.NewReader(strings.Repeat("x", length))})
	body, err := route.Body(r.WithContext(budget.With(t.Context(), h)))
	if held := b.Use().Bytes - before; err != nil || len(body) != length || held < length || held > 2*length {
		t.Errorf("%d bytes are held for %d, %v; want no more than twice as many", held, len(body), err)
	}
}

// A stream says how it may be kept, and has an id where it is given one, of which no line is part.
func TestWhatAStreamSays(t *testing.T) {
	w := httptest.NewRecorder()
	route.ServeStream(w, httptest.NewRequest("GET", "/", nil), func(w *route.Writer) error {
		w.Buffer(1 << 10)
		w.Buffer(1 << 20) // the first stays
		return w.SendID("7", "said", "hello")
	})
	if got := w.Body.String(); got != "id: 7\nevent: said\ndata: \"hello\"\n\n" {
		t.Errorf("got %q", got)
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q", got)
	}
}

func TestWhoAsksForEvents(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "application/json": false, "*/*": false, "text/event-stream": true, "text/event-stream;q": false,
		"application/json, text/event-stream; charset=utf-8": true,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", accept)
		if got := route.AcceptsEvents(r); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}

// Another protocol over HTTP ends with the daemon if it is endless; else it has the grace that all requests have.
func TestARawAnswerEndsWithTheDaemonIfItIsEndless(t *testing.T) {
	for _, endless := range []bool{true, false} {
		stopping, stop := context.WithCancel(t.Context())
		served := false
		raw := route.Raw{Endless: endless, Serve: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			served = true
			stop()
			if endless {
				<-r.Context().Done()
			} else if r.Context().Err() != nil {
				t.Error("what ends by itself has no grace")
			}
		})}
		ctx := route.WithStop(t.Context(), stopping)
		route.ServeRaw(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil), raw)
		if !served {
			t.Error("nothing is served")
		}
	}
}

func TestParametersAreReadStrictly(t *testing.T) {
	known := []route.Param{
		{Name: "n", Type: "integer"}, {Name: "b", Type: "boolean"}, {Name: "e", Enum: []string{"x", "y"}}, {Name: "r", Repeats: true},
	}
	for query, want := range map[string]string{
		"": "", "n=1&b=true&e=x&r=1&r=2": "", "n=": "", "n=x": "want a number", "b=1": "true or false", "e=z": "want x, y",
		"n=1&n=2": "given twice", "m=1": `unknown parameter "m"`, "%zz": "cannot be read",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.RawQuery = query
		err := route.CheckQuery(r, known)
		if (err == nil) != (want == "") || err != nil && (status(err) != 400 || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
	page := httptest.NewRequest("GET", "/?limit=7&offset=3", nil)
	if err := route.CheckQuery(page, route.PageQuery); err != nil {
		t.Errorf("what a page is asked with: %v", err)
	}
}

func TestPages(t *testing.T) {
	for query, want := range map[string]route.Page{
		"": {Limit: 50}, "limit=7&offset=3": {Limit: 7, Offset: 3}, "limit=101": {}, "limit=0": {}, "offset=-1": {}, "limit=x": {},
	} {
		got, err := route.Paging(httptest.NewRequest("GET", "/?"+query, nil))
		if (err != nil) != (want == route.Page{}) || err == nil && got != want {
			t.Errorf("%s: %+v, %v, want %+v", query, got, err, want)
		}
	}
	p := route.Page{Limit: 2, Offset: 1}
	rows := func(yield func(string, error) bool) { _ = yield("b", nil) && yield("c", nil) }
	out, err := route.Rows(httptest.NewRequest("GET", "/", nil), p, rows, 2, 4, 9)
	if err != nil {
		t.Fatal(err)
	}
	list := out.(route.List)
	if list.Meta != (route.Meta{Total: 4, Limit: 2, Offset: 1, HasMore: true}) || p.List(nil, 3, 4).Meta.HasMore {
		t.Errorf("%+v", list.Meta)
	}
	for item, err := range list.Data.(route.Items) {
		if item != "b" || err != nil {
			t.Errorf("%v, %v", item, err)
		}
		break // a reader that leaves
	}
}

func TestAStreamEndsWithItsChannelAndWithTheDaemon(t *testing.T) {
	serve := func(ctx context.Context, write route.Stream) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		route.ServeStream(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil), write)
		return w
	}
	from := make(chan string, 1)
	from <- "hello"
	close(from)
	w := serve(t.Context(), func(w *route.Writer) error {
		return route.Copy(w, from, func(s string) error { return w.Send("said", s) })
	})
	if w.Body.String() != ": ready\n\nevent: said\ndata: \"hello\"\n\n" || w.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("got %q, %v", w.Body, w.Header())
	}
	stopping, stop := context.WithCancel(t.Context())
	stop()
	var err error
	serve(route.WithStop(t.Context(), stopping), func(w *route.Writer) error {
		<-w.Context.Done()
		err = route.Copy(w, make(chan string), func(string) error { return nil })
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a stream of a daemon that stops: %v", err)
	}
	serve(t.Context(), func(w *route.Writer) error {
		err = w.Send("said", func() {})
		return err
	})
	if err == nil {
		t.Error("what is no JSON was sent")
	}
}

// TestAStreamThatNobodyTakesEndsWithTheDaemon: it has no grace, also while it writes.
func TestAStreamThatNobodyTakesEndsWithTheDaemon(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route.ServeStream(w, r, func(w *route.Writer) error {
			defer w.NoGrace()()
			var err error
			for err == nil {
				err = w.Raw(make([]byte, 1<<20))
			}
			ended <- err
			return err
		})
	}))
	s.Config.BaseContext = func(net.Listener) context.Context { return route.WithStop(context.Background(), stopping) }
	s.Start()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer c.Close() // first
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it still writes")
	}
}

func TestErrorsAndCallers(t *testing.T) {
	for err, want := range map[error]int{
		route.BadRequest("x"): 400, route.Forbidden("c", "x", "h"): 403, route.Missing("c", "x"): 404,
	} {
		if status(err) != want || err.Error() != "x" {
			t.Errorf("%v has the status %d, want %d", err, status(err), want)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r = r.WithContext(route.WithCaller(r.Context(), route.Caller{Account: "a", UID: 7}))
	c := route.CallerOf(r)
	if c.Operator() != "uid:7" || c.Account != "a" {
		t.Errorf("%+v", c)
	}
	if c.Person = "Ada"; c.Operator() != "Ada (uid:7)" {
		t.Errorf("a person is %q", c.Operator())
	}
}
