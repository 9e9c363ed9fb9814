package conflict_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/internal/undo/conflict"
)

func Example() {
	e := conflict.Entry{Path: "a.go", Why: conflict.Changed + conflict.ByCall + "call_2"}
	fmt.Println(e.Why)
	fmt.Println(e.IsLater(), e.IsOfCall(), e.IsInUse(), e.IsProtected())
	// Output:
	// it changed since, by call call_2
	// true true false false
}
