package search_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/internal/tools/search"
)

func Example() {
	files := map[string]string{"/src/.gitignore": "bin/\n*.log\n"}
	x := search.NewIgnores(func(path string) []byte { return []byte(files[path]) })
	fmt.Println(x.Ignored("/src", "/src/bin/a.o"), x.Ignored("/src", "/src/a.log"), x.Ignored("/src", "/src/a.go"))
	// Output: true true false
}
