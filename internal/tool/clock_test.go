package tool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// The clock of a call stands still while somebody is asked, however many questions there are.
func TestTheClockOfACallStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k tool.Clock
		ctx, cancel := tool.Timeout(tool.WithClock(t.Context(), &k), 10*time.Second)
		defer cancel()
		time.Sleep(4 * time.Second)
		one, other := k.Pause(), k.Pause()
		time.Sleep(time.Hour)
		one()
		one()
		time.Sleep(time.Hour)
		late, cancelLate := tool.Timeout(tool.WithClock(t.Context(), &k), time.Second) // begins stopped
		defer cancelLate()
		if ctx.Err() != nil || late.Err() != nil {
			t.Fatal("it ran on during a question")
		}
		other()
		time.Sleep(5 * time.Second)
		if ctx.Err() != nil || context.Cause(late) != context.DeadlineExceeded {
			t.Errorf("6 of 10 seconds are left: %v; 1 of 1 is over: %v", ctx.Err(), context.Cause(late))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if context.Cause(ctx) != context.DeadlineExceeded {
			t.Errorf("after 10 seconds: %v", context.Cause(ctx))
		}
		k.Pause()() // what has ended does not begin again
		plain, end := tool.Timeout(t.Context(), time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		if context.Cause(plain) != context.DeadlineExceeded {
			t.Error("without a clock nothing ends")
		}
		end()
		parent, stop := context.WithCancel(t.Context())
		child, end := tool.Timeout(tool.WithClock(parent, &k), time.Hour)
		defer end()
		if stop(); child.Err() == nil {
			t.Error("it outlives its parent")
		}
	})
}
