package egress

import (
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"syscall"
)

// lazy is where an answer goes. The reverse proxy flushes after each piece of a body, which costs a
// TLS record and a system call each. A lazy one flushes before the daemon waits for more of the
// answer: nothing is late, and bulk data goes in large pieces.
type lazy struct {
	http.ResponseWriter

	mu      sync.Mutex // guards what follows and the writer: a timer of the reverse proxy flushes the header
	awaited bool       // a flow flushes it before it waits
	written bool       // the last call was Write
	dirty   bool       // a flush is due
}

func (l *lazy) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = true
	return l.ResponseWriter.Write(p)
}

// FlushError puts off the flush after a Write, if somebody does it later; any other is for the header, or for trailers.
func (l *lazy) FlushError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written && l.awaited {
		l.written, l.dirty = false, true
		return nil
	}
	return http.NewResponseController(l.ResponseWriter).Flush()
}

// Unwrap is for [http.ResponseController].
func (l *lazy) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// flush does what was put off.
func (l *lazy) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dirty {
		l.dirty = false
		http.NewResponseController(l.ResponseWriter).Flush() // an error comes again at the next Write
	}
}

// found notes which flow a request has.
func (q *request) found() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		conn := info.Conn
		if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
			conn = t.NetConn()
		}
		q.flow, _ = conn.(*flow)
	}}
}

// reads makes the flow of the request, if it has one, flush its answer before it waits.
func (q *request) reads() {
	if q.flow == nil {
		return
	}
	q.to.mu.Lock()
	q.to.awaited = true
	q.to.mu.Unlock()
	q.flow.to.Store(q.to)
}

// over lets the flow serve another request. Who reads it by now flushes this answer no more.
func (q *request) over() {
	if q.flow != nil {
		q.flow.to.CompareAndSwap(q.to, nil)
	}
	q.to.mu.Lock()
	defer q.to.mu.Unlock()
	q.to.dirty = false
}

// ready reads what has come, and does not wait. 0: nothing has, or Read says more.
func (f *flow) ready(p []byte) (n int) {
	raw, err := f.up.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), p)
		return true
	})
	return max(n, 0)
}
