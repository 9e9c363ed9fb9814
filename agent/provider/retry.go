package provider

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Retries is how often a request is repeated.
const Retries = 3

// Asker asks again where that may help: after overload, failures of the server or of the
// network, and answers that are not whole. Then it asks Fallback, once.
type Asker struct {
	Client   Client
	Fallback string
	Base     time.Duration // how long the first wait is, about
	Max      time.Duration // of one wait
	// Said hears why it asks again.
	Said func(string)
	// Spent hears of each answer that began, also of one that broke off: then an error of Spent is that of Ask, which
	// does not ask again. Beside a whole answer its error is dropped.
	Spent func(Request, Answer) error
}

// Ask returns the answer, and says in it which model gave it.
func (a Asker) Ask(ctx context.Context, r Request, hear func(Event)) (Answer, error) {
	for attempt := 0; ; attempt++ {
		answer, err := a.Client.Stream(ctx, r, hear)
		if answer.Began {
			if over := a.Spent(r, answer); err != nil && over != nil {
				return answer, over
			}
		}
		failed, ok := errors.AsType[*Error](err)
		switch {
		case !ok || !failed.Again || ctx.Err() != nil:
			return answer, err
		case attempt < Retries:
			wait := a.delay(attempt, failed.After, rand.Float64()*2-1)
			a.Said(fmt.Sprintf("%s; asking again in %v", failed.Msg, wait.Round(time.Millisecond)))
			if err := Sleep(ctx, wait); err != nil {
				return answer, err
			}
		case attempt == Retries && a.Fallback != "" && a.Fallback != r.Model:
			a.Said(fmt.Sprintf("%s; asking %s instead", failed.Msg, a.Fallback))
			r.Model = a.Fallback
		default:
			return answer, err
		}
	}
}

// delay doubles with each attempt, a quarter more or less (jitter is in -1 to 1). What the
// server asks for is the least; Max is the most.
func (a Asker) delay(attempt int, asked time.Duration, jitter float64) time.Duration {
	d := a.Base << attempt
	d += time.Duration(float64(d) * 0.25 * jitter)
	return min(max(d, asked), a.Max)
}

// Sleep waits, unless the context ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
