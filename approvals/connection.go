package approvals

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// connectionGrant is the tool of what is remembered of connections. No tool has such a name.
const connectionGrant = "network connection"

const (
	reasonConnection   = "Connection refused by user"
	reasonNoConnection = "nobody is there to be asked about a connection"
	reasonUnheard      = reasonNoConnection + ": nobody watches, and nothing announces questions"
)

// Connection asks whether the programs of a call may connect to a host. One answer serves all
// connections of the session to it that wait, of whatever call. Where nobody would hear of
// the question it is refused at once: a program that asks for a host by itself must not hold
// its call until the time of the question is up.
func (q *Queue) Connection(ctx context.Context, c *tool.Call, to tool.Connecting) (tool.Approval, error) {
	item := itemOf(c, TypeConnection)
	item.Connection, item.Why = &to, to.Why
	parts := []string{
		"connection", c.Session.Account, c.Session.ID, strconv.FormatInt(c.Session.Created.UnixNano(), 10),
		c.Request.RunsAs, to.Workspace, to.Endpoint,
	}
	if to.ByRule {
		for _, r := range to.Why {
			parts = append(parts, r.Rule)
		}
		parts = append(parts, to.Method, to.Path)
	} else {
		item.Remember = []string{RememberOnce, RememberSession, RememberAlways}
	}
	item.Digest = digest(parts...)
	return q.ask(ctx, item, c.In.Emit)
}

// grantKey returns what a remembered answer to the question holds for.
func (i Item) grantKey() (toolName, args, dir string) {
	if to := i.Connection; to != nil {
		about, err := json.Marshal(map[string]string{"endpoint": to.Endpoint})
		if err != nil {
			panic("cannot happen, a text is JSON: " + err.Error())
		}
		return connectionGrant, string(about), to.Workspace
	}
	return i.Tool, string(i.Args), i.Facts.Dir
}

// looksFor is how long an operator who listed the questions counts as watching. A client that watches lists them twice
// a second.
const looksFor = 10 * time.Second

// watchers knows which clients would show a new question.
type watchers struct {
	mu     sync.Mutex // guards what follows
	open   int        // streams
	looked time.Time  // when an operator last listed what waits
}

// Watch counts somebody who is shown questions as they come, until done is called.
func (q *Queue) Watch() (done func()) {
	w := &q.watchers
	w.add(1)
	return sync.OnceFunc(func() { w.add(-1) })
}

func (w *watchers) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open += n
}

// look notes that an operator lists the questions that wait.
func (w *watchers) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = time.Now()
}

func (w *watchers) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open > 0 || time.Since(w.looked) < looksFor
}

// heard reports whether somebody would hear of a new question of this type.
func (q *Queue) heard(t Type) bool {
	return t != TypeConnection || q.opts.Announced || q.watchers.any() || q.fleet.watched.Load()
}
