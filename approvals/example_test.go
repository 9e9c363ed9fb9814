package approvals_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func Example() {
	ctx := context.Background()
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, approvals.Schema())
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	q, err := approvals.New(ctx, db, approvals.Options{Approver: true})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close("the example ends")

	events := q.Subscribe(ctx)
	go func() { // a person, elsewhere
		asked := <-events
		fmt.Println("asked:", asked.Item.Tool, string(asked.Item.Args))
		if _, err := q.Decide(ctx, asked.Item.ID, approvals.Decision{Approved: true, By: "ann"}); err != nil {
			log.Fatal(err)
		}
	}()
	answer, err := q.Execution(ctx, &tool.Call{ // waits
		ID:        "call_1",
		Target:    tool.Target{Spec: tool.Spec{Name: "Bash"}, Session: tool.Session{ID: "s1", Account: "a1"}},
		In:        tool.In{Args: json.RawMessage(`{"command":"make"}`)},
		Judgement: tool.Judgement{Digest: "d1"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("approved:", answer.Approved, "by", answer.By)
	// Output:
	// asked: Bash {"command":"make"}
	// approved: true by ann
}
