package jobs

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/output"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

const (
	// followPause is how long a reader waits for more output after an event. A program that prints in small pieces
	// then costs few events, and readers do not slow it down.
	followPause = 50 * time.Millisecond
	// With many readers the pause is longer, because every event costs time for each of them.
	readersPause   = 25 // readers for whom the pause is one followPause longer
	maxFollowPause = time.Second

	// pieceBytes bounds the output in one event. Characters that JSON escapes make it less.
	pieceBytes = 60 << 10
	// eventBytes bounds the length of such an event, and so the memory for a reader that does not read.
	eventBytes = 64 << 10
	// keptPieces is how many encoded events stay in memory for readers that lag behind.
	keptPieces = 4
)

// piece is some output as an event, which is the same for all readers.
type piece struct {
	from, next int64
	event      []byte
}

// readers are those who follow a job. One goroutine waits for output, and tells all readers at once up to
// which offset they may read. So all of them read the same pieces, and each piece is read from the ring
// and encoded once. The writer does no work for readers.
type readers struct {
	mu     sync.Mutex // guards what follows
	n      int
	stop   context.CancelFunc // ends that goroutine
	upTo   int64              // up to where they may read
	ended  bool               // nothing comes behind that
	told   chan struct{}      // closed when that changes
	pieces []piece            // the newest last
	room   []byte
}

// Follow sends the output from an offset on as events, until the job has ended or send fails. If a hook or a person may
// withhold the output, it sends it after the release.
func (j *Job) Follow(ctx context.Context, from int64, send func(event []byte, next int64) error) error {
	if j.Info().Withheld {
		if err := j.awaitEnd(ctx); err != nil || j.Info().Withheld {
			return err
		}
	}
	defer j.join()()
	for ended := false; !ended; {
		var upTo int64
		var told <-chan struct{}
		upTo, told, ended = j.readers.state()
		for from < upTo {
			p, err := j.piece(from, upTo, ended)
			if err != nil {
				return err
			}
			if p.next == from { // the start of a character
				break
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := send(p.event, p.next); err != nil {
				return err
			}
			from = p.next
		}
		if ended {
			break
		}
		select {
		case <-told:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return j.awaitEnd(ctx)
}

func (j *Job) awaitEnd(ctx context.Context) error {
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join adds a reader, and returns what takes it away.
func (j *Job) join() (leave func()) {
	r := &j.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n++; r.n == 1 {
		r.upTo, r.ended, r.told = j.out.written(), false, make(chan struct{})
		ctx, stop := context.WithCancel(context.Background())
		r.stop = stop
		go j.tell(ctx, r.upTo)
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.n--; r.n == 0 {
			r.stop()
			r.pieces, r.room = nil, nil
		}
	}
}

// tell wakes the readers when there is new output, at most once in each pause.
func (j *Job) tell(ctx context.Context, upTo int64) {
	for {
		more, err := j.out.wait(ctx, upTo)
		if err != nil {
			return
		}
		upTo = j.out.written()
		pause := j.readers.tell(ctx, upTo, !more)
		if !more {
			return
		}
		select {
		case <-time.After(pause):
		case <-j.gone: // the rest comes at once
		case <-ctx.Done():
			return
		}
	}
}

// tell sets the offset up to which the readers may read, and returns the pause after it.
func (r *readers) tell(ctx context.Context, upTo int64, ended bool) (pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() == nil { // others may have joined since the last has left
		r.upTo, r.ended = upTo, ended
		close(r.told)
		r.told = make(chan struct{})
	}
	return min(followPause*time.Duration(1+r.n/readersPause), maxFollowPause)
}

func (r *readers) state() (upTo int64, told <-chan struct{}, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.upTo, r.told, r.ended
}

// piece returns the event of the output from an offset on, which ends at upTo at the latest. It ends at from if
// there is only the start of a character.
func (j *Job) piece(from, upTo int64, last bool) (piece, error) {
	r := &j.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pieces {
		if p.from == from {
			return p, nil
		}
	}
	if r.room == nil {
		r.room = make([]byte, pieceBytes)
	}
	b, at, err := j.whole(r.room[:min(pieceBytes, upTo-from)], from, last)
	if err != nil || len(b) == 0 {
		return piece{from: from, next: from}, err
	}
	for {
		text := bytes.ToValidUTF8(b, []byte("\uFFFD"))
		p := piece{from: from, next: at + int64(len(b))}
		if p.event, err = route.Encode(j.eventID(p.next), "output", tool.PrintedBytes("output", at, text)); err != nil {
			return piece{}, err
		}
		if len(p.event) <= eventBytes {
			r.pieces = append(r.pieces[max(0, len(r.pieces)-keptPieces+1):], p)
			return p, nil
		}
		half := b[:len(b)/2]
		b = half[:output.Whole(half)]
	}
}
