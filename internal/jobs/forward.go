package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Forward is a port of a job that is offered on the loopback of the host.
type Forward struct {
	Port    int    `json:"port"`    // of the job
	Address string `json:"address"` // on the host, where everybody on it can connect
}

// forward is an offered port, and the connections to it.
type forward struct {
	listener net.Listener
	program  sandbox.Proc
	port     uint16
	room     chan struct{} // one for each connection

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu; nil when it has ended
}

const (
	// maxForwards bounds the ports of a job that are offered.
	maxForwards = 16
	// maxConns bounds the connections to one of them. Everybody on the host can make some, and
	// each costs the daemon two descriptors. More wait.
	maxConns = 128
	// dialTime bounds how long a connection to the job may take.
	dialTime = 10 * time.Second
)

// Forward offers a port of the job on the loopback of the host, at the port at there; 0 takes
// one that is free. record is called before, and its error prevents it.
func (j *Job) Forward(port, at int, record func(Forward) error) (Forward, error) {
	j.js.mu.Lock()
	defer j.js.mu.Unlock()
	switch {
	case j.over || j.ended() || j.program == nil:
		return Forward{}, &tool.Error{Code: "job_ended", Msg: "the job has ended, and serves nothing any more"}
	case j.forwards[port] != nil:
		return Forward{}, &tool.Error{
			Code: "port_taken",
			Msg:  fmt.Sprintf("port %d of this job is offered at %s already", port, j.forwards[port].address()),
			Hint: "sandboxd jobs forward --end ends that",
		}
	case len(j.forwards) >= maxForwards:
		return Forward{}, &tool.Error{
			Code: "port_taken",
			Msg:  fmt.Sprintf("%d ports of this job are offered, %d at most", len(j.forwards), maxForwards),
			Hint: "end one with sandboxd jobs forward --end",
		}
	}
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(at)))
	if err != nil {
		said := &tool.Error{Code: "port_taken", Msg: fmt.Sprintf("port %d of the host cannot be had: %v", at, err)}
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
			said.Hint = "name another with --at; 0 takes one that is free"
		}
		return Forward{}, said
	}
	f := &forward{
		listener: l, program: j.program, port: uint16(port), room: make(chan struct{}, maxConns),
		conns: map[net.Conn]bool{},
	}
	offered := Forward{port, f.address()}
	if err := record(offered); err != nil {
		l.Close()
		return Forward{}, err
	}
	if j.forwards == nil {
		j.forwards = map[int]*forward{}
	}
	j.forwards[port] = f
	j.listForwards()
	go f.serve()
	return offered, nil
}

// EndForward ends what Forward began.
func (j *Job) EndForward(port int) error {
	j.js.mu.Lock()
	defer j.js.mu.Unlock()
	f := j.forwards[port]
	if f == nil {
		return &tool.Error{Code: "port_not_forwarded", Msg: fmt.Sprintf("port %d of this job is not offered", port)}
	}
	f.end()
	delete(j.forwards, port)
	j.listForwards()
	return nil
}

// endForwards ends all of them. js.mu is held.
func (j *Job) endForwards() {
	for _, f := range j.forwards {
		f.end()
	}
	j.forwards = nil
	j.listForwards()
}

// listForwards says in the info which there are. js.mu is held.
func (j *Job) listForwards() {
	j.info.Forwards = nil
	for port, f := range j.forwards {
		j.info.Forwards = append(j.info.Forwards, Forward{port, f.address()})
	}
	slices.SortFunc(j.info.Forwards, func(a, b Forward) int { return cmp.Compare(a.Port, b.Port) })
}

func (f *forward) address() string { return f.listener.Addr().String() }

// serve takes connections until the forward ends.
func (f *forward) serve() {
	for {
		f.room <- struct{}{}
		c, err := f.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, which passes
			<-f.room
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go func() {
			defer func() { <-f.room }()
			f.relay(c.(*net.TCPConn))
		}()
	}
}

// relay copies bytes between a connection on the host and one to the job. If the job does not accept, relay resets the
// connection: a client would take an orderly end for an empty answer.
func (f *forward) relay(here *net.TCPConn) {
	defer here.Close()
	if !f.keep(here) {
		return
	}
	defer f.drop(here)
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	conn, err := f.program.Dial(ctx, f.port)
	if err != nil {
		_ = here.SetLinger(0)
		return
	}
	there := conn.(halfCloser)
	defer there.Close()
	if !f.keep(there) {
		return
	}
	defer f.drop(there)
	var both sync.WaitGroup
	for _, way := range [][2]halfCloser{{here, there}, {there, here}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // who closed is gone
			_ = way[0].CloseWrite()
		})
	}
	both.Wait()
}

// halfCloser is a connection of which one direction can end.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// keep notes a connection. It reports false when the forward has ended.
func (f *forward) keep(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conns == nil {
		return false
	}
	f.conns[c] = true
	return true
}

func (f *forward) drop(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

// end closes the port and all connections to it.
func (f *forward) end() {
	f.listener.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.Close()
	}
	f.conns = nil
}

// offer is a port that an operator wants to have on the host.
type offer struct {
	Port int  `json:"port"`
	At   *int `json:"at,omitempty"` // the port of the host; the same if absent, and any that is free for 0
}

func (js *Jobs) forward(r *http.Request) (any, error) {
	var in offer
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	at := in.Port
	if in.At != nil {
		at = *in.At
	}
	if in.Port < 1 || in.Port > maxPort || at < 0 || at > maxPort {
		return nil, route.BadRequest("port is a number from 1 to 65535, and at may be 0, too")
	}
	j, err := js.found(r)
	if err != nil {
		return nil, err
	}
	return j.Forward(in.Port, at, func(f Forward) error {
		return js.noteForward(r, j, "job_forwarded", f.Port, f.Address)
	})
}

// maxPort is the largest number of a port.
const maxPort = 65535

// noteForward records an act of an operator. js.mu may be held.
func (js *Jobs) noteForward(r *http.Request, j *Job, name string, port int, address string) error {
	return js.o.Record(r.Context(), tool.Note{
		Name: name, Account: j.info.Account, Session: j.info.Session, Call: j.info.Call, Tool: j.info.Tool,
		Detail: map[string]string{
			"job": j.info.ID, "port": strconv.Itoa(port), "address": address, "by": route.CallerOf(r).Operator(),
		},
	})
}

func (js *Jobs) endForward(r *http.Request) (any, error) {
	port, err := strconv.Atoi(r.PathValue("port"))
	if err != nil {
		return nil, route.BadRequest("the port is no number")
	}
	j, err := js.found(r)
	if err != nil {
		return nil, err
	}
	if err := j.EndForward(port); err != nil {
		return nil, err
	}
	if err := js.noteForward(r, j, "job_forward_ended", port, ""); err != nil {
		return nil, err
	}
	return route.Deleted{ID: strconv.Itoa(port), Deleted: true}, nil
}
