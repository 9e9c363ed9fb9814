package egress

import (
	"cmp"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// flow is one connection to a host. As a net.Conn it counts what it passes.
type flow struct {
	call    *Call
	up      *net.TCPConn
	row     Row // as it was counted when it began
	pace    *Pace
	began   time.Time
	unwatch func()
	in, out atomic.Int64
	to      atomic.Pointer[lazy] // where the body goes that is read; nil: nobody knows
	once    sync.Once
}

// end writes down what passed; the connection has been closed.
func (f *flow) end() {
	f.once.Do(func() {
		if f.unwatch != nil {
			f.unwatch()
		}
		r := f.row
		r.BytesIn, r.BytesOut = f.in.Load(), f.out.Load()
		if r.Count > 0 {
			r.DurationMS = time.Since(f.began).Milliseconds()
		}
		r.Count = 0
		f.call.mu.Lock()
		delete(f.call.flows, f)
		f.call.ledger.Add(r)
		f.call.mu.Unlock()
	})
}

// spend counts bytes of this connection, and waits if they passed too fast.
func (f *flow) spend(n int64) error {
	f.call.waited.Add(int64(f.pace.pass(f.call.ctx, n)))
	r := f.row
	if !f.call.spend(n, Connection{Host: r.Host, Port: r.Port, Protocol: r.Protocol, Via: r.Via}) {
		return net.ErrClosed
	}
	return nil
}

func (f *flow) Read(p []byte) (int, error) {
	n, err := 0, error(nil)
	if to := f.to.Load(); to != nil {
		if n = f.ready(p); n == 0 {
			to.flush()
		}
	}
	if n == 0 {
		n, err = f.up.Read(p)
	}
	f.in.Add(int64(n))
	return n, cmp.Or(f.spend(int64(n)), err)
}

func (f *flow) Write(p []byte) (int, error) {
	n, err := f.up.Write(p)
	f.out.Add(int64(n))
	return n, cmp.Or(f.spend(int64(n)), err)
}

func (f *flow) Close() error {
	err := f.up.Close()
	f.end()
	return err
}

func (f *flow) CloseWrite() error                  { return f.up.CloseWrite() }
func (f *flow) LocalAddr() net.Addr                { return f.up.LocalAddr() }
func (f *flow) RemoteAddr() net.Addr               { return f.up.RemoteAddr() }
func (f *flow) SetDeadline(t time.Time) error      { return f.up.SetDeadline(t) }
func (f *flow) SetReadDeadline(t time.Time) error  { return f.up.SetReadDeadline(t) }
func (f *flow) SetWriteDeadline(t time.Time) error { return f.up.SetWriteDeadline(t) }

// relay passes bytes both ways until both sides have ended, or one is reset: then the other
// is reset too.
func (f *flow) relay(cl *client) {
	var back error
	done := make(chan struct{})
	go func() {
		defer close(done)
		back = f.pass(cl.tcp, f.up, &f.in)
		if back != nil {
			f.abort(cl)
		}
	}()
	if err := f.ahead(cl); err != nil {
		f.abort(cl)
	} else if err := f.pass(f.up, cl.tcp, &f.out); err != nil {
		f.abort(cl)
	}
	<-done
	f.Close()
}

// ahead sends on what was read of the program before the relay began.
func (f *flow) ahead(cl *client) error {
	before := cl.before
	cl.before = nil
	if len(before) == 0 {
		return nil
	}
	_, err := f.Write(before)
	return err
}

func (f *flow) abort(cl *client) {
	reset(f.up)
	reset(cl.tcp)
}

// fullReads are how many full buffers in a row make a connection one of bulk data.
const fullReads = 4

// pass copies src to dst to its end, then ends dst in this direction. Little data is copied:
// a read and a write cost less than two splices, and an idle connection holds neither a
// buffer nor the four descriptors of two pipes. Bulk data is spliced.
func (f *flow) pass(dst, src *net.TCPConn, count *atomic.Int64) error {
	in, err := newReader(src)
	if err != nil {
		return err
	}
	for full := 0; ; {
		var n int64
		if full < fullReads {
			n, err = in.copyTo(dst)
			full++
			if n < bufferSize {
				full = 0
			}
		} else {
			want, began := f.call.chunk(), time.Now()
			n, err = dst.ReadFrom(&io.LimitedReader{R: src, N: want})
			if err == nil && n < want {
				err = io.EOF
			}
			if time.Since(began) > time.Second {
				full = 0 // not much any more
			}
		}
		count.Add(n)
		if spent := f.spend(n); spent != nil {
			return spent
		}
		if err == io.EOF {
			return dst.CloseWrite()
		}
		if err != nil {
			return err
		}
	}
}

const bufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// reader reads a connection into a buffer that it takes only when there is something.
type reader struct {
	raw  syscall.RawConn
	read func(fd uintptr) bool
	buf  *[bufferSize]byte
	n    int
	err  error
}

func newReader(src *net.TCPConn) (*reader, error) {
	raw, err := src.SyscallConn()
	if err != nil {
		return nil, err
	}
	r := &reader{raw: raw}
	r.read = r.tryRead
	return r, nil
}

func (r *reader) tryRead(fd uintptr) bool {
	buf := buffers.Get().(*[bufferSize]byte)
	for {
		r.n, r.err = syscall.Read(int(fd), buf[:])
		if r.err != syscall.EINTR {
			break
		}
	}
	if r.err != nil || r.n == 0 {
		buffers.Put(buf)
		return r.err != syscall.EAGAIN
	}
	r.buf = buf
	return true
}

// copyTo passes on what one read gives.
func (r *reader) copyTo(dst *net.TCPConn) (int64, error) {
	if err := r.raw.Read(r.read); err != nil {
		return 0, err
	}
	if r.err != nil {
		return 0, r.err
	}
	if r.n == 0 {
		return 0, io.EOF
	}
	n, err := dst.Write(r.buf[:r.n])
	buffers.Put(r.buf)
	r.buf = nil
	return int64(n), err
}
