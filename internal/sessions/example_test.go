package sessions_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/internal/sessions"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func Example() {
	ctx := context.Background()
	db, err := store.Open(ctx, store.Options{Path: ":memory:"}, sessions.Schema())
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	s := sessions.New(db, sessions.Options{})
	sess, err := s.Create(ctx, tool.Session{ID: "s1", Account: "uid-1000", Dir: "/home/me/repo"})
	if err != nil {
		log.Fatal(err)
	}
	sess, err = s.Session(ctx, sess.Account, sess.ID)
	fmt.Println(sess.Dir, err)
	_, err = s.Session(ctx, "uid-1001", sess.ID)
	fmt.Println(err)
	// Output:
	// /home/me/repo <nil>
	// session "s1" not found
}
