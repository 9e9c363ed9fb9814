package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/mcp/servers"
	"github.com/sandboxd/sandboxd/internal/mcp/upstream"
	"github.com/sandboxd/sandboxd/internal/mcp/vet"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// The states of a server (M-15).
const (
	Connected = "connected"
	Failed    = "failed"
	Pending   = "pending"
	Disabled  = "disabled"
	NeedsAuth = "needsAuth"
)

// How often a failed connection is tried again, and after which time (M-04).
const (
	retries     = 2
	firstDelay  = time.Second
	longest     = 10 * time.Second
	connectTime = 30 * time.Second
	stableTime  = time.Minute // after so long, retries count from the beginning
	relistTime  = time.Second // between two looks at a list that changes; doubled each time while it keeps changing
	relistMost  = time.Minute
)

var errNoOwner = &tool.Error{
	Code: "no_owner",
	Msg:  "it is not known with whose rights the servers of this session run, because an operator made it",
	Hint: "let the agent make its session itself",
}

// server is one server of a session.
type server struct {
	x     *session
	name  string
	conf  servers.Server
	slots chan struct{} // one for each call that may run at once

	life   sync.Mutex // held while the server is switched on or off
	closed bool       // the session does not have it any more, so it never connects again
	cancel context.CancelFunc
	ended  chan struct{} // closed when nothing of it runs

	relist chan struct{} // signals that its list has changed
	rejudg chan struct{} // signals that other servers have changed

	mu       sync.Mutex // guards the fields below
	state    string
	err      string
	conn     *upstream.Conn
	settings guard.Settings       // settings of its cage
	defs     []vet.Definition     // the definitions that it gave last
	vetted   map[string]vet.Found // by text of the definition
	tools    map[string]tool.Tool // by whole name: tools that were let in
	withheld []Withheld
	asked    map[string]bool   // pins about which a person is asked, or was asked
	asking   map[string]*waits // those whose questions still wait
	minute   time.Time
	calls    int // in that minute
}

// Withheld is a tool that models do not get.
type Withheld struct {
	Tool string `json:"tool"`
	Why  string `json:"why"`
}

func newServer(x *session, name string, conf servers.Server) *server {
	return &server{
		x: x, name: name, conf: conf, slots: make(chan struct{}, conf.Limits.WithDefaults().ConcurrentCalls),
		relist: make(chan struct{}, 1), rejudg: make(chan struct{}, 1), state: Pending, asked: map[string]bool{},
		asking: map[string]*waits{},
	}
}

// Status describes a server (M-15).
type Status struct {
	Name     string     `json:"name"`
	Type     string     `json:"type"`
	Status   string     `json:"status"`
	Tools    []string   `json:"tools"`
	Withheld []Withheld `json:"withheld,omitempty"`
	Error    string     `json:"error,omitempty"`
	Stderr   string     `json:"stderr,omitempty"` // the end of what its program wrote
	Dropped  int64      `json:"dropped_lines,omitempty"`
}

func (v *server) status() Status {
	v.mu.Lock()
	s := Status{
		Name: v.name, Type: v.conf.Kind(), Status: v.state, Tools: []string{}, Withheld: v.withheld, Error: v.err,
	}
	conn := v.conn
	v.mu.Unlock()
	for _, t := range v.x.offered() { // not v.tools: whoever reads that a tool has gone finds it gone
		if of := t.Spec().MCP; of.Server == v.name && s.Status == Connected {
			s.Tools = append(s.Tools, of.Tool)
		}
	}
	slices.Sort(s.Tools)
	if len(s.Withheld) > 0 && s.Error == "" {
		var all []string
		for _, w := range s.Withheld {
			all = append(all, fmt.Sprintf("%.80q: %s", w.Tool, w.Why))
		}
		s.Error = fmt.Sprintf("%d tools are withheld: %s", len(all), strings.Join(all[:min(len(all), 20)], "; "))
	}
	if conn != nil && conn.Process() != nil {
		p := conn.Process()
		s.Stderr = p.Stderr()
		dropped, failed := p.Noise()
		s.Dropped = dropped + failed
	}
	return s
}

// withholds reports whether a tool waits for a person.
func (v *server) withholds() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.withheld) > 0
}

// offered returns the tools that models get.
func (v *server) offered() map[string]tool.Tool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.tools)
}

// known returns the names that the server gave its tools, whether let in or not.
func (v *server) known() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	names := make([]string, 0, len(v.defs))
	for _, d := range v.defs {
		names = append(names, d.Name)
	}
	return names
}

// set changes the state. A server that is not connected has no tools (M-14).
func (v *server) set(state string, err error) {
	v.mu.Lock()
	v.state, v.err = state, ""
	if err != nil { // the server may have written it
		v.err = v.x.g.host.Redact(strings.ToValidUTF8(fmt.Sprintf("%.2000s", err), "\uFFFD"))
	}
	if state != Connected {
		v.conn, v.tools, v.withheld, v.defs = nil, nil, nil, nil
	}
	v.mu.Unlock()
	v.x.publish()
}

// enable begins to connect, with all retries (M-16).
func (v *server) enable() {
	v.life.Lock()
	defer v.life.Unlock()
	v.begin()
}

// renew connects again, unless somebody has done so since conn or has disconnected the server.
func (v *server) renew(conn *upstream.Conn) {
	v.life.Lock()
	defer v.life.Unlock()
	v.mu.Lock()
	same := v.conn == conn
	v.mu.Unlock()
	if same {
		v.begin()
	}
}

// begin is enable. The caller holds life.
func (v *server) begin() {
	if v.closed {
		return
	}
	v.end()
	v.set(Pending, nil)
	v.mu.Lock()
	clear(v.asked) // after a new connection a person may be asked again
	v.mu.Unlock()
	ctx, cancel := context.WithCancel(v.x.g.ctx)
	v.cancel, v.ended = cancel, make(chan struct{})
	go func() {
		defer close(v.ended)
		v.run(ctx)
	}()
}

// disable disconnects the server and keeps its configuration (M-17).
func (v *server) disable() {
	v.life.Lock()
	defer v.life.Unlock()
	v.end()
	v.set(Disabled, nil)
}

// close disconnects the server for good.
func (v *server) close() {
	v.life.Lock()
	defer v.life.Unlock()
	v.closed = true
	v.end()
	v.set(Disabled, nil)
}

// end waits until nothing of the server runs. The caller holds life.
func (v *server) end() {
	if v.cancel != nil {
		v.cancel()
		<-v.ended
		v.cancel = nil
	}
}

// run keeps the server connected. After a failure it tries again, and after too many it gives up.
func (v *server) run(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			v.x.g.log.Error("panic in an MCP server", "server", v.name, "panic", fmt.Sprint(p))
			v.set(Failed, fmt.Errorf("panic: %v", p))
		}
	}()
	delay := firstDelay
	for left := retries; ; left-- {
		began := time.Now()
		err := v.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > stableTime {
			left, delay = retries, firstDelay
		}
		if errors.Is(err, upstream.ErrNeedsAuth) {
			v.set(NeedsAuth, err)
			return
		}
		if final := (finalError{}); errors.As(err, &final) || left <= 0 {
			v.set(Failed, err)
			return
		}
		v.set(Pending, fmt.Errorf("%w; it is tried again in %s", err, delay))
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
		delay = min(delay*2, longest)
	}
}

// finalError is an error that another try would not mend.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// once connects, and returns when the connection has ended.
func (v *server) once(ctx context.Context) error {
	if v.conf.Kind() == servers.TypeSDK {
		v.inProcess()
		<-ctx.Done()
		return nil
	}
	began, cancel := context.WithTimeoutCause(ctx, connectTime, fmt.Errorf("nothing came within %s", connectTime))
	conn, settings, forget, err := v.connect(began, ctx)
	if err != nil {
		cancel()
		return err
	}
	defer forget()
	defer conn.Close()
	defs, err := conn.Tools(began)
	cancel()
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.conn, v.settings, v.defs = conn, settings, defs
	v.mu.Unlock()
	if err := v.judge(ctx); err != nil {
		return err
	}
	v.set(Connected, nil) // last, so that whoever sees it connected finds its tools
	v.x.reconsider(v)
	return v.watch(ctx, conn)
}

// watch follows the list of the server until the connection ends.
func (v *server) watch(ctx context.Context, conn *upstream.Conn) error {
	changed, pause := v.relist, relistTime
	var looked time.Time
	var pauseEnds <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-conn.Ended():
			if p := conn.Process(); p != nil {
				return p.Why()
			}
			return errors.New("the connection ended")
		case <-v.rejudg:
			if err := v.judge(ctx); err != nil {
				return err
			}
		case <-pauseEnds:
			changed = v.relist
		case <-changed:
			if time.Since(looked) > 2*relistMost {
				pause = relistTime
			}
			late := fmt.Errorf("no list came within %s", connectTime)
			listing, cancel := context.WithTimeoutCause(ctx, connectTime, late)
			defs, err := conn.Tools(listing)
			cancel()
			if err != nil {
				return err
			}
			v.mu.Lock()
			v.defs = defs
			v.mu.Unlock()
			if err := v.judge(ctx); err != nil {
				return err
			}
			v.x.reconsider(v)
			looked, changed, pauseEnds = time.Now(), nil, time.After(pause)
			pause = min(2*pause, relistMost)
		}
	}
}

// again asks for the tools to be judged again.
func (v *server) again() { signal(v.rejudg) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
