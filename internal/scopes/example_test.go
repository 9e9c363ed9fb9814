package scopes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/scopes"
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
)

func Example() {
	db, err := store.Open(context.Background(), store.Options{Path: ":memory:"}, sessions.Schema(), scopes.Definition().Schema)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	s := scopes.New(db)
	p := s.Part(part.Host{DB: db})

	// What package api does with the routes.
	mux := http.NewServeMux()
	for _, rt := range p.Routes {
		mux.HandleFunc(rt.Pattern, func(_ http.ResponseWriter, r *http.Request) {
			out, err := rt.Handle(r.WithContext(route.WithCaller(r.Context(), route.Caller{Account: "team"})))
			if made, ok := out.(route.Created); ok {
				out = made.Data
			}
			if x, ok := out.(scopes.Variable); ok && err == nil {
				fmt.Println(x.Scope, x.Key, string(x.Value))
				return
			}
			text, _ := json.Marshal(out)
			fmt.Println(string(text), err)
		})
	}
	body := strings.NewReader(`{"scope": "global", "scope_id": "global", "key": "mood", "value": {"n": 1}}`)
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("PUT", "/variables", body))
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/variables/resolve?session_id=tale", nil))
	// Output:
	// global mood {"n":1}
	// {"context":{"account_id":"","session_id":"","global_scope_id":""},"resolved":null} there is no session "tale"
}
