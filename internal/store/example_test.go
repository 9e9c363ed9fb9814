package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"testing/fstest"

	"github.com/sandboxd/sandboxd/internal/store"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	notes := store.Schema{Name: "notes", Files: fstest.MapFS{
		"0001_notes.sql": {Data: []byte("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")},
	}}

	db, err := store.Open(ctx, store.Options{Path: dir + "/state.db"}, notes)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO notes (id, text) VALUES ($1, $2)", 1, "hello")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	var text string
	err = db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow("SELECT text FROM notes WHERE id = $1", 1).Scan(&text)
	})
	fmt.Println(text, err)
	// Output:
	// hello <nil>
}
