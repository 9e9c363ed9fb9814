package ask_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/sandboxd/sandboxd/internal/undo/ask"
)

// daemon answers as a daemon in which three calls changed something. The newest is an undo of the
// second, and the second file of the oldest was changed since.
type daemon struct{}

func (daemon) Do(_ context.Context, _, path string, _, out any) error {
	answer := `[{"call_id": "call_3", "undoes": "call_2"}, {"call_id": "call_2", "undone_by": "call_3"},
		{"call_id": "call_1"}]`
	if strings.HasSuffix(path, "/undo") {
		answer = `{"call_id": "call_4", "undone": "call_1", "restored": ["a.go", "new.go"], "removed": ["new.go"],
			"conflicts": [{"path": "b.go", "why": "it changed since, by call call_2"}]}`
	}
	return json.Unmarshal([]byte(answer), out)
}

func Example() {
	ctx := context.Background()
	u := ask.Undo{Daemon: daemon{}}
	ids, err := u.Undoable(ctx, "s1", 1)
	fmt.Println(ids, err)
	left, err := u.All(ctx, ids, func(a ask.Answer) error { u.Print(os.Stdout, a); return nil })
	fmt.Println(left, err)
	// Output:
	// [call_1] <nil>
	// restored a.go
	// removed  new.go
	// left     b.go: it changed since, by call call_2
	// what changed since the call stays: undo the later call first, or use --force (operator)
	// undid a part of call_1; sandboxd undo call_4 takes that back
	// true <nil>
}
