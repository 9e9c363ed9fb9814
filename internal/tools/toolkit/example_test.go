package toolkit_test

import (
	"encoding/json"
	"fmt"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
)

func Example() {
	in := tool.In{Dir: "/src", Args: json.RawMessage(`{"path": "a.go"}`)}
	in.Judged.Paths = []guard.PathUse{{Raw: "a.go", Path: "/src/a.go", Op: guard.Read}}

	args, err := toolkit.Decode[struct{ Path string }](in)
	fmt.Println(args.Path, err)
	file, err := toolkit.Judged(in, args.Path, guard.Read)
	fmt.Println(file.Path, toolkit.Shown(in.Dir, file.Path), err)
	_, err = toolkit.Judged(in, args.Path, guard.Write)
	fmt.Println(err != nil)
	fmt.Println(toolkit.Sniff([]byte("\x89PNG\r\n\x1a\n…")).MIME)
	// Output:
	// a.go <nil>
	// /src/a.go a.go <nil>
	// true
	// image/png
}
