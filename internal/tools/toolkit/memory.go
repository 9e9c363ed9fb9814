package toolkit

import (
	"context"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// Need takes memory from the budget of the call before a step uses it, and waits until it
// is there. It is given back when the call has ended. A call asks once, for the most that it
// may need: calls that hold a part and wait for more would wait for each other.
func Need(ctx context.Context, bytes int64) error { return budget.Of(ctx).Wait(ctx, bytes) }

// NeedForValues takes, without waiting, what the values of a JSON text need when they are
// decoded: of a list of {} that is many times its length.
func NeedForValues(ctx context.Context, text []byte) error {
	const each = 150
	return budget.Of(ctx).Take(each * int64(strictjson.Values(text)))
}
