package textcall_test

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
	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/textcall"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func Example() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	d := textcall.Definition()
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, d.Schema, sessions.Schema())
	must(err)
	defer db.Close()
	kept := sessions.New(db, sessions.Options{})
	_, err = kept.Create(ctx, tool.Session{ID: "s1", Account: "a", Dir: "/src", Mode: tool.ModeAuto})
	must(err)
	p, err := d.Open(ctx, part.Host{
		Config: d.Config(), DB: db, Sessions: kept,
		Do: func(_ context.Context, r tool.Request) tool.Result { // the request path
			text := r.Tool + " got " + string(r.Args)
			return tool.Result{Status: tool.StatusSuccess, FinalText: text, FormattedText: text}
		},
	})
	must(err)

	mux := http.NewServeMux() // of package api
	for _, rt := range p.Routes {
		mux.HandleFunc(rt.Pattern, func(w http.ResponseWriter, r *http.Request) {
			out, err := rt.Handle(r)
			must(err)
			must(json.NewEncoder(w).Encode(out))
		})
	}
	for _, role := range []string{"user", "assistant"} {
		body := `{"role": "` + role + `", "content": "I look. [CALL: Read(file_path=a.go)]"}`
		r := httptest.NewRequest("POST", "/sessions/s1/text/reply", strings.NewReader(body))
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r.WithContext(route.WithCaller(ctx, route.Caller{Account: "a", UID: 1000, GID: 1000})))
		var said struct {
			Status   string
			Message  struct{ Role, Content string } // to append
			Continue bool
		}
		must(json.Unmarshal(w.Body.Bytes(), &said))
		fmt.Printf("%s: %s, go on: %v, %q\n", role, said.Status, said.Continue, said.Message.Content)
	}
	// Output:
	// user: NO_CALL, go on: false, ""
	// assistant: SUCCESS, go on: true, "Skill result: Read\n---\nRead got {\"file_path\":\"a.go\"}"
}
