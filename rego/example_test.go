package rego_test

import (
	"fmt"
	"io/fs"
	"log"

	"github.com/sandboxd/sandboxd/rego"
)

func Example() {
	entries, err := fs.ReadDir(rego.Files, ".")
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		fmt.Println(e.Name())
	}
	// Output:
	// audit
	// capabilities.json
	// core
	// developer
	// lib
	// observe
	// schemas
	// strict
}
