package recent

import (
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/policy/input"
)

// kind is what a number counts.
type kind int

const (
	calls kind = iota
	byTool
	byRule
	verdict
)

// key is one number of a window.
type key struct {
	kind kind
	name string
}

// slots are the parts of a window. It slides by one at a time, so it reaches back between
// its length and a twelfth more.
const slots = 12

// scope are the windows of one session or account.
type scope struct {
	turn sync.Mutex // held while a call that reads the counts is judged

	// Guarded by the mutex of the counter.
	used time.Time
	of   [3]window
}

func newScope() *scope {
	s := &scope{}
	for i, length := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		s.of[i] = window{slot: length / slots, sum: map[key]int{}}
	}
	return s
}

// add counts n at a time that may be past.
func (s *scope) add(now, at time.Time, what key, n int) {
	for i := range s.of {
		s.of[i].add(now, at, what, n)
	}
}

func (s *scope) windows(now time.Time) input.Windows {
	return input.Windows{Minute: s.of[0].count(now), Hour: s.of[1].count(now), Day: s.of[2].count(now)}
}

// window counts over the last slots and the one that has begun.
type window struct {
	slot  time.Duration
	newer int64 // number of the newest slot
	ring  [slots + 1]map[key]int
	sum   map[key]int // of all slots
}

// slide drops the slots that are over.
func (w *window) slide(now time.Time) {
	at := now.UnixNano() / int64(w.slot)
	if at < w.newer-slots {
		w.renumber(at)
	}
	if at <= w.newer { // a clock that is set back a little does not slide
		return
	}
	for n := max(w.newer+1, at-slots); n <= at; n++ {
		gone := &w.ring[n%int64(len(w.ring))]
		for what, count := range *gone {
			if w.sum[what] -= count; w.sum[what] == 0 {
				delete(w.sum, what)
			}
		}
		*gone = nil
	}
	w.newer = at
}

// renumber makes the slot at the newest, with what the newest one holds, and those before it
// likewise. A clock that is set back further than the window would otherwise have nothing
// counted until it is there again.
func (w *window) renumber(at int64) {
	old, n := w.ring, int64(len(w.ring))
	for back := range n {
		w.ring[((at-back)%n+n)%n] = old[((w.newer-back)%n+n)%n]
	}
	w.newer = at
}

func (w *window) add(now, at time.Time, what key, n int) {
	w.slide(now)
	slot := min(at.UnixNano()/int64(w.slot), w.newer)
	if slot < w.newer-slots {
		return // it is out of the window
	}
	in := &w.ring[slot%int64(len(w.ring))]
	if *in == nil {
		*in = map[key]int{}
	}
	(*in)[what] += n
	if w.sum[what] += n; w.sum[what] == 0 {
		delete(w.sum, what)
	}
}

func (w *window) count(now time.Time) input.Count {
	w.slide(now)
	c := input.Count{Tools: map[string]int{}, Rules: map[string]int{}}
	for what, n := range w.sum {
		switch what.kind {
		case calls:
			c.Calls = n
		case byTool:
			c.Tools[what.name] = n
		case byRule:
			c.Rules[what.name] = n
		case verdict:
			c.Verdicts.Add(what.name, n)
		}
	}
	return c
}
