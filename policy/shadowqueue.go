package policy

import (
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy/input"
)

// Bounds of what waits for a shadow. What is over is left out.
const (
	maxShadowed    = 2048     // calls
	maxEnded       = 1 << 14  // ends of calls
	maxShadowBytes = 16 << 20 // of documents
)

// shadowGather is how long calls wait for others, to be judged together.
const shadowGather = 20 * time.Millisecond

// shadowed is a call that was judged, or has ended.
type shadowed struct {
	id    string
	input *input.Document // of a call that was judged
	said  *opinion
	ended *ended
	flush chan struct{}
}

// ended is how a call ended.
type ended struct {
	decision tool.Decision
	beside   tool.Beside
	approved bool
	status   tool.Status
	lease    bool
}

// size is about how much memory it takes, beside what every call takes.
func (x shadowed) size() int64 {
	switch {
	case x.input == nil:
		return 0
	case x.input.Tool.Class == string(tool.ClassExec):
		return inputFactor * int64(len(x.input.Params))
	}
	return 2 * int64(len(x.input.Params))
}

// shadowQueue holds what waits for a shadow, in order. Nobody who puts something in waits.
type shadowQueue struct {
	more  chan struct{} // holds one where something waits
	hurry chan struct{} // for whoever waits for what is in it

	*shadowWaiting
}

type shadowWaiting struct {
	mu    sync.Mutex // guards what follows
	list  []shadowed
	calls int
	bytes int64

	mostBytes int64
	mostCalls int
}

func newShadowQueue() shadowQueue {
	return shadowQueue{
		more: make(chan struct{}, 1), hurry: make(chan struct{}), shadowWaiting: &shadowWaiting{
			mostBytes: maxShadowBytes, mostCalls: maxShadowed,
		},
	}
}

// put leaves out what is over the bounds. A call that is left out is missed when it ends.
func (q shadowQueue) put(x shadowed) {
	if !q.add(x) {
		return
	}
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (w *shadowWaiting) add(x shadowed) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := x.size()
	if len(w.list) >= maxEnded && x.flush == nil {
		return false
	}
	if x.input != nil {
		if w.calls >= w.mostCalls || w.bytes+size > w.mostBytes {
			return false
		}
		w.calls++
	}
	w.bytes += size
	w.list = append(w.list, x)
	return true
}

func (w *shadowWaiting) take() []shadowed {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.list
	w.list, w.calls, w.bytes = nil, 0, 0
	return all
}
