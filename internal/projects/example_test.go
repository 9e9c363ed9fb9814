package projects_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/projects"
)

// A person allows a directory, and a session starts below it.
func Example() {
	dir, err := os.MkdirTemp("", "projects")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	repo := filepath.Join(dir, "repo")
	if err := os.MkdirAll(filepath.Join(repo, "sub"), 0o700); err != nil {
		log.Fatal(err)
	}

	list, err := projects.Open(filepath.Join(dir, "projects.json"))
	if err != nil {
		log.Fatal(err)
	}
	list.Use(projects.Rules{Project: func(dir string) (guard.Settings, error) {
		return guard.Settings{AllowedWritePaths: []string{dir}}, nil
	}})

	_, err = list.Of(filepath.Join(repo, "sub"))
	fmt.Println("before:", err != nil)
	record := func(what string) error { return nil }
	if _, err := list.Allow(repo, "uid:1000", record); err != nil {
		log.Fatal(err)
	}
	w, err := list.Of(filepath.Join(repo, "sub"))
	fmt.Println("after:", w.Roots[0] == repo, err)
	// Output:
	// before: true
	// after: true <nil>
}
