package web_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/web"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	d := web.Definition()
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, d.Schema)
	must(err)
	defer db.Close()
	config := d.Config().(*web.Config)
	config.Listen = "127.0.0.1:0"
	must(config.Check())
	p, err := d.Open(ctx, part.Host{
		DB: db, Config: config, Log: slog.New(slog.DiscardHandler), Operators: nothingWaits,
		Record: func(_ context.Context, n tool.Note) error { fmt.Println(n.Message); return nil },
	})
	must(err)
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx) }()
	defer func() { stop(); <-served }()

	// An operator asks for a link, over the operator socket.
	var link web.Link
	for _, rt := range p.Routes {
		if rt.Pattern == "POST /web/links" {
			r := httptest.NewRequest("POST", "/web/links", strings.NewReader(`{"as": "Ada"}`))
			operator := route.Caller{Role: tool.RoleOperator, UID: 1000}
			out, err := rt.Handle(r.WithContext(route.WithCaller(ctx, operator)))
			must(err)
			link = out.(route.Created).Data.(web.Link)
		}
	}

	jar, err := cookiejar.New(nil)
	must(err)
	browser := &http.Client{Jar: jar}
	page, _, _ := strings.Cut(link.URL, "login")
	for _, get := range []struct{ what, url string }{
		{"the page, without a login", page}, {"the link", link.URL}, {"the page", page}, {"the link again", link.URL},
	} {
		answer, err := browser.Get(get.url)
		must(err)
		text, err := io.ReadAll(answer.Body)
		must(err)
		answer.Body.Close()
		fmt.Printf("%s: %s, it knows Ada: %v\n", get.what, answer.Status, strings.Contains(string(text), "Ada"))
	}
	// Output:
	// a link to the page was made by uid:1000
	// the page, without a login: 401 Unauthorized, it knows Ada: false
	// the link: 200 OK, it knows Ada: false
	// the page: 200 OK, it knows Ada: true
	// the link again: 403 Forbidden, it knows Ada: false
}

// nothingWaits is the API of operators, whose questions are all answered.
func nothingWaits(route.Caller) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data": []}`) })
}
