package toolkit_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
)

func Example() {
	in := tool.In{Dir: "/src"}
	in.Judged.Paths = []guard.PathUse{{Raw: "a.go", Path: "/src/a.go", Op: guard.Read}}

	file, err := toolkit.Judged(in, "a.go", guard.Read)
	fmt.Println(file.Path, toolkit.Shown(in.Dir, file.Path), err)
	_, err = toolkit.Judged(in, "a.go", guard.Write)
	fmt.Println(err != nil)
	fmt.Println(toolkit.Sniff([]byte("\x89PNG\r\n\x1a\n…")).MIME)
	// Output:
	// /src/a.go a.go <nil>
	// true
	// image/png
}
