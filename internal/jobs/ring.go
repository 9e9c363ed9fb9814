package jobs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// ringHead is the number of bytes before the output in the file of a ring: how many bytes it
// keeps, and how many were printed in all.
const ringHead = 16

// chunk is how many bytes are written at once. A crash can come between the output and its count; the last chunk then
// lies over the oldest output without being counted. So the file has room for one chunk more than the ring keeps.
const chunk = 64 << 10

// ring keeps the last bytes of an output in a file, and knows their offsets in the whole. One
// goroutine at a time writes; any number reads.
type ring struct {
	path string
	most int64 // bytes that can be read back
	rate int64 // bytes that may come in a second

	mu      sync.RWMutex
	f       *os.File      // guarded by mu; nil when nothing more comes
	err     error         // guarded by mu: why something is not kept
	total   int64         // guarded by mu
	closed  bool          // guarded by mu
	emptied bool          // guarded by mu: the file keeps nothing
	news    chan struct{} // guarded by mu; closed when something comes; nil if nobody waits

	room float64 // bytes that may come at once, by who writes
	at   time.Time
}

// createRing makes a ring in a new file.
func createRing(path string, most, rate int64) (*ring, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep the output of a job: %w", err)
	}
	r := &ring{path: path, most: most, rate: rate, f: f, room: float64(rate)}
	if err := r.count(0); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

// openRing opens what an earlier daemon has kept. Nothing can be written to it.
func openRing(path string) (*ring, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the output of a job: %w", err)
	}
	defer f.Close()
	var head [ringHead]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return nil, fmt.Errorf("read the output of a job: %w", err)
	}
	r := &ring{path: path, closed: true}
	r.most, r.total = int64(binary.LittleEndian.Uint64(head[:])), int64(binary.LittleEndian.Uint64(head[8:]))
	if r.most <= 0 || r.total < 0 {
		return nil, fmt.Errorf("read the output of a job: %s is no such file", path)
	}
	return r, nil
}

// Write implements [io.Writer]. It waits as long as the rate limit demands. It never fails, so a full disk does not end
// the job: lost then says why output is missing.
func (r *ring) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		piece := p[done:min(len(p), done+chunk)]
		r.slow(len(piece))
		r.put(piece)
		done += len(piece)
	}
	return len(p), nil
}

// slow waits until n more bytes may come.
func (r *ring) slow(n int) {
	now := time.Now()
	if !r.at.IsZero() {
		r.room = min(float64(r.rate), r.room+now.Sub(r.at).Seconds()*float64(r.rate))
	}
	r.at = now
	if r.room -= float64(n); r.room < 0 {
		time.Sleep(time.Duration(-r.room / float64(r.rate) * float64(time.Second)))
	}
}

func (r *ring) put(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.err != nil {
		return
	}
	if r.err = r.store(p); r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// store writes first the output and then how much it is. r.mu is held.
func (r *ring) store(p []byte) error {
	size := r.most + chunk
	for rest, at := p, r.total%size; len(rest) > 0; at = 0 {
		n := min(int64(len(rest)), size-at)
		if _, err := r.f.WriteAt(rest[:n], ringHead+at); err != nil {
			return fmt.Errorf("keep the output of a job: %w", err)
		}
		rest = rest[n:]
	}
	return r.count(r.total + int64(len(p)))
}

// count says how many bytes were printed. r.mu is held, or nobody else knows the ring.
func (r *ring) count(total int64) error {
	var head [ringHead]byte
	binary.LittleEndian.PutUint64(head[:], uint64(r.most))
	binary.LittleEndian.PutUint64(head[8:], uint64(total))
	if _, err := r.f.WriteAt(head[:], 0); err != nil {
		return fmt.Errorf("keep the output of a job: %w", err)
	}
	r.total = total
	return nil
}

// read fills p with output from an offset on, or from the oldest byte that the ring still has. It returns the offset of
// the first byte, and no bytes at the end of the output. The writer does not wait for it: read leaves out bytes that
// the writer overwrote meanwhile.
func (r *ring) read(p []byte, offset int64) (n int, from int64, err error) {
	for {
		f, total := r.state()
		from = min(max(offset, total-r.most, 0), total)
		want := p[:min(int64(len(p)), total-from)]
		if len(want) == 0 {
			return 0, from, nil
		}
		if err := r.readAt(f, want, from); err != nil {
			return 0, from, err
		}
		// Of what is written now and not counted yet, the file has room for a chunk.
		lost := max(0, r.written()-r.most-from)
		if lost < int64(len(want)) {
			return copy(p, want[lost:]), from + lost, nil
		}
	}
}

// state returns the file, or nil when nothing more comes, and how many bytes were printed.
func (r *ring) state() (*os.File, int64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.f, r.total
}

// readAt fills p with what the file has at an offset of the output.
func (r *ring) readAt(f *os.File, p []byte, offset int64) error {
	size := r.most + chunk
	for n := 0; n < len(p); {
		if f == nil {
			var err error
			if f, err = os.Open(r.path); err != nil {
				return fmt.Errorf("read the output of a job: %w", err)
			}
			defer f.Close()
		}
		at := (offset + int64(n)) % size
		want := p[n:min(int64(len(p)), int64(n)+size-at)]
		_, err := f.ReadAt(want, ringHead+at)
		if errors.Is(err, os.ErrClosed) { // the job has ended meanwhile
			f = nil
			continue
		}
		if err != nil {
			return fmt.Errorf("read the output of a job: %w", err)
		}
		n += len(want)
	}
	return nil
}

// wait returns when there is something behind an offset, or will never be.
func (r *ring) wait(ctx context.Context, offset int64) (more bool, err error) {
	for {
		r.mu.Lock()
		if r.total > offset || r.closed {
			more := r.total > offset
			r.mu.Unlock()
			return more, nil
		}
		if r.news == nil {
			r.news = make(chan struct{})
		}
		news := r.news
		r.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// written returns how many bytes were printed in all.
func (r *ring) written() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.total
}

// size returns how many bytes the file takes.
func (r *ring) size() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.emptied {
		return ringHead
	}
	return ringHead + min(r.total, r.most+chunk)
}

// empty deletes what the file keeps. The output has ended.
func (r *ring) empty() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := os.Truncate(r.path, ringHead)
	r.emptied = err == nil
	return err
}

// end says that nothing more comes. What is kept can still be read.
func (r *ring) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.f != nil {
		r.f.Close()
		r.f = nil
	}
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// lost says why something is not kept, or "".
func (r *ring) lost() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.err == nil {
		return ""
	}
	return r.err.Error()
}
