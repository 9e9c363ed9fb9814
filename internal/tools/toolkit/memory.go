package toolkit

import (
	"context"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// Need takes memory from the budget of the call before a step uses it, and waits until the budget has it. The memory
// is released at the end of the call. Each call may ask once only, for the most that it can need, because calls that
// hold a part and wait for more would wait for each other.
func Need(ctx context.Context, bytes int64) error { return budget.Of(ctx).Wait(ctx, bytes) }

// NeedForValues takes, without waiting, the memory that the values of a JSON text need once they are decoded. For a
// list of {} this is many times the length of the text.
func NeedForValues(ctx context.Context, text []byte) error {
	const each = 150
	return budget.Of(ctx).Take(each * int64(strictjson.Values(text)))
}
