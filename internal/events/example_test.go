package events_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func Example() {
	var b events.Broker
	server := httptest.NewServer(served(&b)) // package api does this
	defer server.Close()
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"?type=reload", nil)
	if err != nil {
		log.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r) // from the head of the answer on, nothing is missed
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()

	b.Publish(events.Event{Type: events.CallBegin, Account: "a1"})
	b.Publish(events.Event{Type: events.Reload, Status: "ok"})
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "event:") {
			fmt.Println(lines.Text())
			break
		}
	}
	// Output:
	// event: reload
}

func served(b *events.Broker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(route.WithCaller(r.Context(), route.Caller{Role: tool.RoleOperator, Any: true}))
		out, err := b.Routes()[0].Handle(r)
		if err != nil {
			log.Fatal(err)
		}
		route.ServeStream(w, r, out.(route.Stream))
	})
}
