// Package routetest calls routes in the tests of the packages that bring them.
//
//	got := routetest.Call(t, p.Routes, tool.RoleAgent, "GET /sessions/s1/notes?limit=1", "")
//	if want := `2 [{"text":"a"}]`; got != want { … } // one of two notes
//
// [Call] takes a request through a mux to the handler of its route, as the server does, without a
// socket. It checks the query. The role is only what the handler sees; it is not checked. It returns
// the answer as text, for an error its code and message, or "error: …" if it has no code. It fails no
// test: a line without a route is the text "no route for …". [Stream] does the same for events.
//
// What the server adds (who may call, the status of an error) is tested in internal/api. A new
// kind of answer of package route, such as route.List, gets its text in the function text, or in
// call if it is written in pieces, as route.Stream is. A route that answers route.Raw cannot be
// called here.
package routetest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/jsonout"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Call sends "METHOD /path?query" with a body as a caller of that role. The answer is the JSON
// of its data, behind "created " for a route.Created, or "CODE: message" of an error. A list
// has its total in front: "2 [...]". The caller is uid 7 of account "a".
func Call(t testing.TB, routes []route.Route, role tool.Role, line, body string) string {
	t.Helper()
	return call(t.Context(), routes, role, line, body)
}

// Stream is Call of a route that sends events. It returns what was sent when ctx ended.
func Stream(ctx context.Context, routes []route.Route, role tool.Role, line string) string {
	return call(ctx, routes, role, line, "")
}

func call(ctx context.Context, routes []route.Route, role tool.Role, line, body string) string {
	answer := "no route for " + line
	mux := http.NewServeMux()
	for _, rt := range routes {
		mux.HandleFunc(rt.Pattern, func(_ http.ResponseWriter, r *http.Request) {
			err := route.CheckQuery(r, rt.Spec.Query)
			var out any
			if err == nil {
				out, err = rt.Handle(r)
			}
			if stream, ok := out.(route.Stream); ok && err == nil {
				w := httptest.NewRecorder()
				route.ServeStream(w, r, stream)
				answer = w.Body.String()
			} else if err == nil {
				answer, err = text(out)
			}
			if err != nil {
				answer = "error: " + err.Error()
				if e := tool.ErrorOf(err); e != nil {
					answer = e.Code + ": " + e.Msg
				}
			}
		})
	}
	method, target, _ := strings.Cut(line, " ")
	r := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	caller := route.Caller{Account: "a", Role: role, UID: 7}
	mux.ServeHTTP(httptest.NewRecorder(), r.WithContext(route.WithCaller(r.Context(), caller)))
	return answer
}

func text(out any) (string, error) {
	prefix := ""
	switch v := out.(type) {
	case route.Created:
		prefix, out = "created ", v.Data
	case route.List:
		prefix, out = strconv.Itoa(v.Meta.Total)+" ", v.Data
	}
	if items, ok := out.(route.Items); ok {
		all := []any{}
		for item, err := range items {
			if err != nil {
				return "", err
			}
			all = append(all, item)
		}
		out = all
	}
	var b strings.Builder
	err := jsonout.Write(&b, out)
	return prefix + b.String(), err
}
