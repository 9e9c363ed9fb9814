package policy

import (
	"context"
	"slices"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
)

// maxFiles is how many files that a search found rules see at a time.
const maxFiles = 256

// Withheld says which of the files that a call found by itself it may not read: those of which rules deny or
// ask more than they said of the call. A rule for a whole tree has judged the search; one for a name at any
// depth, such as Read(*.pem), has not, and nobody is asked about each file. Callbacks and list policies judge
// calls alone. What cannot be judged is an error.
func (e *Engine) Withheld(ctx context.Context, c *tool.Call, paths []string) (map[string]bool, error) {
	r := e.current.Load()
	said, err := input.New(c)
	if err != nil {
		return nil, err
	}
	withheld := map[string]bool{}
	var judge func([]string) error
	judge = func(some []string) error {
		with := *c
		with.Facts.Uses.Paths = slices.Clone(c.Facts.Uses.Paths)
		for _, p := range some {
			with.Facts.Uses.Paths = append(with.Facts.Uses.Paths, guard.PathUse{Raw: p, Path: p, Op: guard.Read})
		}
		in, err := input.New(&with)
		if err != nil {
			return err
		}
		d := e.fresh(ctx, r, c, changesDeadline, said, in)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case d.By == tool.ByCore:
			return &tool.Error{Code: d.Reasons[0].Code, Msg: d.Reasons[0].Message, Hint: d.Reasons[0].Hint}
		case d.Verdict == tool.Allow:
			return nil
		case len(some) == 1:
			withheld[some[0]] = true
			return nil
		}
		half := len(some) / 2
		if err := judge(some[:half]); err != nil {
			return err
		}
		return judge(some[half:])
	}
	found := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { // what the call names was judged with it
		return slices.ContainsFunc(c.Facts.Uses.Paths, func(u guard.PathUse) bool {
			return u.Path == path && u.Op == guard.Read && !u.Recursive
		})
	})
	for some := range slices.Chunk(found, maxFiles) {
		if err := judge(some); err != nil {
			return nil, err
		}
	}
	return withheld, nil
}
