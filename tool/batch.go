package tool

import (
	"context"
	"sync"
)

// maxParallel is how many read-only calls of a batch run at once (T-57).
const maxParallel = 10

// Batch runs many calls and returns one result per call, in the order given
// (T-57 to T-60). Read-only calls go first, at most ten at a time; then the
// others, one after the other in their order. The context is looked at before
// every call: run must answer a call that comes after the cancellation as
// cancelled, without doing it, and Batch calls run for each of them too, so that
// no call is left without a result.
//
// A call that waits for a person should leave its place to others: see [Park].
func Batch[C, R any](ctx context.Context, calls []C, readOnly func(C) bool, run func(context.Context, C) R) []R {
	results := make([]R, len(calls))
	slots := make(chan struct{}, maxParallel)
	inSlot := context.WithValue(ctx, slotKey{}, slots)
	next := make(chan int)
	var wg sync.WaitGroup
	for i, c := range calls {
		if !readOnly(c) {
			continue
		}
		slots <- struct{}{}
		select {
		case next <- i: // to a goroutine whose call has ended: its stack has grown
		default:
			wg.Go(func() {
				for i, more := i, true; more; i, more = <-next {
					results[i] = run(inSlot, calls[i])
					<-slots
				}
			})
		}
	}
	close(next)
	wg.Wait()
	for i, c := range calls {
		if !readOnly(c) {
			results[i] = run(ctx, c)
		}
	}
	return results
}

type slotKey struct{}

// Park gives up the place of a call among the ten of its batch while it waits
// for a person (CX-73); the returned function takes one again. Outside a batch
// both do nothing.
func Park(ctx context.Context) (resume func()) {
	slots, ok := ctx.Value(slotKey{}).(chan struct{})
	if !ok {
		return func() {}
	}
	<-slots
	return func() { slots <- struct{}{} }
}
