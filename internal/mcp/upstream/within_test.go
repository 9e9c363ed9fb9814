package upstream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

// A server that hangs holds nobody longer than the call lasts, and one whose answer breaks the reader is an error.
func TestACallIsLeftWhenItIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("its time is over")
		ctx, cancel := context.WithCancelCause(t.Context())
		hangs, left := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := within(ctx, func() (int, error) {
				<-hangs
				return 1, nil
			})
			left <- err
		}()
		synctest.Wait()
		cancel(why)
		synctest.Wait()
		select {
		case err := <-left:
			if !errors.Is(err, why) {
				t.Errorf("got %v, want %v", err, why)
			}
		default:
			t.Error("the call waits for a server that hangs")
		}
		close(hangs)
	})
	why := errors.New("its time is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := within(unheard{ctx}, func() (int, error) { return 0, ctx.Err() }); !errors.Is(err, why) {
		t.Errorf("the request ends before the wait for it: got %v, want %v", err, why)
	}
	if _, err := within(t.Context(), func() (int, error) { panic("bad answer") }); err == nil ||
		!strings.Contains(err.Error(), "bad answer") {
		t.Errorf("got %v", err)
	}
}

// unheard is a context whose end is not heard of, so that what f returns comes first.
type unheard struct{ context.Context }

func (unheard) Done() <-chan struct{} { return nil }
