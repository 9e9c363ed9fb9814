package diskspace

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sandboxd/sandboxd/sandbox/limit"
)

func Example() {
	g := New(Options{
		State: "/state", Private: "/state/cage", Log: slog.New(slog.DiscardHandler),
		Sessions: func(context.Context) (map[string]Session, error) {
			return map[string]Session{"a": {Account: "team"}, "b": {Account: "others"}}, nil
		},
		Files: func([]string) (map[string]int64, error) { return map[string]int64{"a": 40 << 20, "b": 1 << 20}, nil },
		testOnlySpace: func([]string) map[uint64]limit.Space {
			return map[uint64]limit.Space{1: {Size: 80 << 20, Avail: 30 << 20}}
		},
	})
	g.measure()
	fmt.Println(g.Admit("team", "", 0))
	fmt.Println(g.Admit("others", "", 0))
	fmt.Println(g.Admit("others", "", 16<<20))
	// Output:
	// the sessions of account team keep 40.0 MiB in private files (/tmp and caches) and variables, and 20.0 MiB is the most that one account may have now
	// <nil>
	// the disk of the daemon has 30.0 MiB free, 10.0 MiB are kept for its record, and this needs 34.5 MiB
}
