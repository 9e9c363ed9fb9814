// Package output keeps what a running call says, for those who follow it.
//
// A [Log] gets events and the bytes that programs write. Each [Reader] takes them at its own pace:
//
//	l := output.NewLog(256 << 10)
//	r := l.Owner()                     // before the first write: the reader for whom writers wait
//	l.Write("stdout", []byte("one\n")) // by the program, while r is read in another goroutine
//	items, err := r.Next(ctx)          // waits; the items are valid until the next call
//	l.Close()                          // nothing more comes; readers take the rest and get io.EOF
//
// A log has one owner: ask for it once. If the owner takes no more, it must call [Reader.Close], or
// writers wait for it. Other readers come from [Log.After], behind the Seq of an item, and need no
// Close. Whoever starts to read late misses what the log has dropped. After an error of ctx, Next may
// be called again. What is written to a closed log is dropped.
//
// Guarantees:
//   - A Log bounds the bytes of output that it holds, and the number of items. It does not count
//     the data of events. The oldest items are dropped.
//   - A writer waits only for the owner. If the owner takes nothing for ten seconds, writers wait
//     no more until it takes something again. Other readers miss what they do not take in time.
//     Events never wait: many of them can push out what the owner has not taken.
//   - The text of an [Item] has whole characters: what is no UTF-8 becomes U+FFFD. Offsets count
//     the bytes that were written, so a reader of valid text sees how many it missed.
package output

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"
)

// patience is how long a program waits for the owner of its log to take something.
const patience = 10 * time.Second

// ItemBytes is how much output one item gathers at most, and a reader takes at once.
const ItemBytes = 60 << 10

const (
	// GatherBytes is what an owner gathers that is faster than its program, within gatherTime: what is
	// printed in small pieces then costs few events.
	GatherBytes = 32 << 10
	gatherTime  = time.Millisecond
)

// itemCost is what an item counts beside its text, so that there are never many.
const itemCost = 128

// Item is one event, or some output.
type Item struct {
	Seq  uint64
	Name string // of an event; "" is output
	Data any    // of an event

	Stream string
	Offset int64  // of the first byte of Text in its stream
	Text   []byte // valid until its reader takes more
}

// entry is an item in a log: its text is n bytes of the ring from at on.
type entry struct {
	Item
	at int64
	n  int
}

func (e entry) cost() int { return e.n + itemCost }

// Log is the events and the output of one call. It is safe for concurrent use.
type Log struct {
	most int

	mu      sync.Mutex // guards what follows
	id      string
	items   []entry
	ring    ring
	next    uint64 // Seq of the next item
	size    int    // what the items cost
	sealed  bool   // a reader has the last item, so nothing may be added to it
	closed  bool
	streams map[string]*stream
	owner   *Reader
	unread  int           // cost of what the owner has not taken
	want    int           // of unread, before anybody is told of news; 0 unless the owner gathers
	late    bool          // the owner did not take anything in time
	news    chan struct{} // closed when something comes; nil if nobody waits
	taken   chan struct{} // closed when the owner takes something; nil if nobody waits
}

// stream is the state of one stream of bytes.
type stream struct {
	offset int64  // of the next byte
	part   []byte // the start of a character
}

// NewLog returns a log that keeps so many bytes of output.
func NewLog(most int) *Log { return &Log{most: most, next: 1, streams: map[string]*stream{}} }

// Reader takes the items of a log in their order. It is used by one goroutine.
type Reader struct {
	l     *Log
	next  uint64
	items []Item
	text  []byte
	pause *time.Timer
}

// Of says which call the log is of.
func (l *Log) Of(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id = id
}

// ID returns the id of the call.
func (l *Log) ID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// Last returns the Seq of the last item.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next - 1
}

// Owner returns a reader for whom programs wait. A log has one.
func (l *Log) Owner() *Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner, l.unread = &Reader{l: l, next: 1}, l.size
	return l.owner
}

// After returns a reader of what comes after an item.
func (l *Log) After(seq uint64) *Reader { return &Reader{l: l, next: seq + 1} }

// Close says that this reader takes no more.
func (r *Reader) Close() {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.l.owner == r {
		r.l.owner = nil
		wake(&r.l.taken)
	}
}

// Next returns items that were not taken yet, and waits if there are none. They are valid until
// the next call. It returns [io.EOF] when the log is closed and everything was taken.
func (r *Reader) Next(ctx context.Context) ([]Item, error) {
	for {
		items, news := r.take()
		if len(items) > 0 {
			return items, nil
		}
		if news == nil {
			return nil, io.EOF
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (r *Reader) take() ([]Item, <-chan struct{}) {
	l := r.l
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.next - uint64(len(l.items))
	r.next = max(r.next, first) // the rest was missed
	r.items, r.text = r.items[:0], r.text[:0]
	for _, e := range l.items[min(r.next-first, uint64(len(l.items))):] {
		if len(r.text) > 0 && len(r.text)+e.n > ItemBytes {
			break
		}
		from := len(r.text)
		r.text = l.ring.read(r.text, e.at, e.n)
		e.Text = r.text[from:]
		r.items = append(r.items, e.Item)
		if l.owner == r {
			l.unread -= e.cost()
		}
		r.next++
	}
	if len(r.items) > 0 {
		l.sealed = l.sealed || r.next == l.next
		if l.owner == r {
			l.late = false
			wake(&l.taken)
		}
		return r.items, nil
	}
	if l.closed {
		return nil, nil
	}
	return nil, wait(&l.news)
}

// More reports whether something was not taken yet.
func (r *Reader) More() bool {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.next < r.l.next
}

// Gather waits until there are [GatherBytes], which it reports, but no longer than a millisecond, and not
// past an event. It is for the owner: for others it reports false.
func (r *Reader) Gather(ctx context.Context) bool {
	l := r.l
	l.mu.Lock()
	defer l.mu.Unlock()
	least := min(GatherBytes, l.most/4)
	if l.closed || l.owner != r || l.unread >= least {
		return !l.closed && l.owner == r
	}
	l.want = least
	enough := wait(&l.news)
	l.mu.Unlock()
	if r.pause == nil {
		r.pause = time.NewTimer(gatherTime)
	} else {
		r.pause.Reset(gatherTime)
	}
	select {
	case <-enough:
	case <-r.pause.C:
	case <-ctx.Done():
	}
	r.pause.Stop()
	l.mu.Lock()
	l.want = 0
	wake(&l.news) // others were not told
	return l.unread >= least
}

// Event adds an event.
func (l *Log) Event(name string, data any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.want = 0
		l.add(Item{Name: name, Data: data}, nil)
	}
}

// Write adds output of a stream. It keeps no reference to p.
func (l *Log) Write(name string, p []byte) {
	most := min(ItemBytes, l.most)
	for ; len(p) > most; p = p[most:] {
		l.write(name, p[:most])
	}
	l.write(name, p)
}

func (l *Log) write(name string, p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.makeRoom(len(p) + itemCost)
	if l.closed || len(p) == 0 {
		return
	}
	s := l.streams[name]
	if s == nil {
		s = &stream{}
		l.streams[name] = s
	}
	at := s.offset - int64(len(s.part))
	s.offset += int64(len(p))
	if len(s.part) > 0 {
		p = append(s.part, p...)
		s.part = nil
	}
	whole := Whole(p)
	if whole < len(p) {
		s.part = bytes.Clone(p[whole:])
	}
	l.text(name, at, p[:whole])
}

// Whole returns how many bytes of p are no start of a character that may still come.
func Whole(p []byte) int {
	for i := len(p) - 1; i >= max(0, len(p)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return i
			}
			break
		}
	}
	return len(p)
}

// text adds valid text that stands at an offset. l.mu is held.
func (l *Log) text(name string, at int64, p []byte) {
	if len(p) == 0 {
		return
	}
	if !utf8.Valid(p) {
		p = bytes.ToValidUTF8(p, []byte("\uFFFD"))
	}
	if n := len(l.items); n > 0 && !l.sealed {
		last := &l.items[n-1]
		if last.Name == "" && last.Stream == name && last.n+len(p) <= min(ItemBytes, l.most/4) {
			last.n += len(p)
			l.keep(p, len(p))
			return
		}
	}
	l.add(Item{Stream: name, Offset: at}, p)
}

// add appends an item. l.mu is held.
func (l *Log) add(i Item, text []byte) {
	i.Seq = l.next
	l.next++
	l.items, l.sealed = append(l.items, entry{Item: i, at: l.ring.end, n: len(text)}), false
	l.keep(text, len(text)+itemCost)
}

// keep writes the text of the last item into the ring. It forgets the oldest items while all of
// them would cost too much with it. l.mu is held.
func (l *Log) keep(text []byte, cost int) {
	drop := 0
	for l.size+cost > l.most && drop < len(l.items)-1 {
		l.size -= l.items[drop].cost()
		if l.owner != nil && l.items[drop].Seq >= l.owner.next { // it has missed that
			l.unread -= l.items[drop].cost()
		}
		drop++
	}
	if drop > 0 {
		clear(l.items[:drop])
		l.items = l.items[drop:]
		l.ring.begin = l.items[0].at
	}
	l.ring.write(text, l.most)
	l.size += cost
	l.unread += cost
	if l.unread >= l.want {
		wake(&l.news)
	}
}

// makeRoom waits until the owner has taken what n more bytes would push out. l.mu is held,
// but not while it waits.
func (l *Log) makeRoom(n int) {
	for l.full(n) {
		taken := wait(&l.taken)
		l.mu.Unlock()
		t := time.NewTimer(patience)
		select {
		case <-taken:
			l.mu.Lock()
		case <-t.C:
			l.mu.Lock()
			l.late = true
		}
		t.Stop()
	}
}

// full reports whether n bytes would push out what the owner has not taken. l.mu is held.
func (l *Log) full(n int) bool {
	return !l.closed && !l.late && l.owner != nil && l.unread > 0 && l.unread+n > l.most
}

// Close says that nothing more comes.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(l.streams)) {
		if s := l.streams[name]; len(s.part) > 0 {
			l.text(name, s.offset-int64(len(s.part)), s.part)
			s.part = nil
		}
	}
	l.closed = true
	wake(&l.news)
	wake(&l.taken)
}

// Size returns how many bytes the log holds.
func (l *Log) Size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// wait returns a channel that wake closes.
func wait(c *chan struct{}) <-chan struct{} {
	if *c == nil {
		*c = make(chan struct{})
	}
	return *c
}

func wake(c *chan struct{}) {
	if *c != nil {
		close(*c)
		*c = nil
	}
}
