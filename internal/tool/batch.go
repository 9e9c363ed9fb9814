package tool

import (
	"context"
	"iter"
	"sync"
)

// maxParallel is how many read-only calls of a batch run at once (T-57).
const maxParallel = 10

// Batch runs many calls and yields one result per call, in the order given (T-57 to
// T-60), each as soon as those before it were taken. Read-only calls go first, at most ten
// at a time; then the others, one after the other in their order. After a cancellation Batch
// still calls run for each call that is left, so that every call has a result; run must then
// answer that the call was cancelled, without doing it. If the caller stops taking results,
// the calls that have not ended are cancelled.
//
// A result that comes before its turn is passed through keep, which may make it smaller.
// A call that waits for a person should free its slot: see [YieldSlot].
func Batch[C, R any](
	ctx context.Context, calls []C, readOnly func(C) bool, run func(context.Context, C) R, keep func(R) R,
) iter.Seq[R] {
	return func(yield func(R) bool) {
		ctx, cancel := context.WithCancel(ctx)
		results := inOrder[R]{turn: make(chan struct{}, 1), keep: keep, early: map[int]R{}, out: make(chan R)}
		go func() {
			defer close(results.out)
			runAll(ctx, calls, readOnly, func(ctx context.Context, i int) { results.put(i, run(ctx, calls[i])) })
		}()
		defer func() { // nothing is left running
			cancel()
			for range results.out {
			}
		}()
		for r := range results.out {
			if !yield(r) {
				return
			}
		}
	}
}

// inOrder passes results on in their order.
type inOrder[R any] struct {
	// turn is held by one token while out takes results: a slow reader slows the calls.
	turn  chan struct{}
	next  int
	early map[int]R
	keep  func(R) R
	out   chan R
}

func (o *inOrder[R]) put(i int, r R) {
	o.turn <- struct{}{}
	defer func() { <-o.turn }()
	if i != o.next {
		o.early[i] = o.keep(r)
		return
	}
	for ok := true; ok; r, ok = o.early[o.next] {
		delete(o.early, o.next)
		o.out <- r
		o.next++
	}
}

// runAll runs the calls in the order of a batch.
func runAll[C any](ctx context.Context, calls []C, readOnly func(C) bool, run func(context.Context, int)) {
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
					run(inSlot, i)
					<-slots
				}
			})
		}
	}
	close(next)
	wg.Wait()
	for i, c := range calls {
		if !readOnly(c) {
			run(ctx, i)
		}
	}
}

type slotKey struct{}

// YieldSlot frees the slot of a call, one of the ten of its batch, while it waits
// for a person (CX-73); the returned function takes a slot again. Outside a batch
// both do nothing.
func YieldSlot(ctx context.Context) (resume func()) {
	slots, ok := ctx.Value(slotKey{}).(chan struct{})
	if !ok {
		return func() {}
	}
	<-slots
	return func() { slots <- struct{}{} }
}
