package web_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/web"
)

func Example() {
	group := catalog.Group{Name: "web", Tools: []tool.Tool{web.Fetch{}, web.NewSearch()}}
	for _, t := range group.Tools {
		fmt.Println(t.Spec().Name, t.Spec().Origin)
	}
	// Output:
	// WebFetch web
	// WebSearch web
}
