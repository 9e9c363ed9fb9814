package route_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

type note struct {
	Text string `json:"text"`
}

func Example() {
	rt := route.Route{
		Pattern: "GET /sessions/{id}/notes", Role: tool.RoleAgent,
		Handle: func(r *http.Request) (any, error) {
			page, err := route.Paging(r)
			notes := []note{{"of " + route.CallerOf(r).Account + " in " + r.PathValue("id")}}
			return page.List(notes, len(notes), len(notes)), err
		},
		Spec: route.Spec{
			ID: "listNotes", Summary: "List notes", Query: route.PageQuery, Out: []note{}, Paged: true,
		},
	}

	// What package api does with it.
	mux := http.NewServeMux()
	mux.HandleFunc(rt.Pattern, func(_ http.ResponseWriter, r *http.Request) {
		out, err := rt.Handle(r.WithContext(route.WithCaller(r.Context(), route.Caller{Account: "team"})))
		if err != nil {
			log.Fatal(err)
		}
		list := out.(route.List)
		fmt.Println(list.Data, list.Meta.Total)
	})
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/sessions/s1/notes", nil))
	// Output:
	// [{of team in s1}] 1
}
