package serve

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
)

// Holds keeps the calls that wait for a person between two requests of a client. Each can be taken once, before it
// expires, by the caller that began it, and only for the same call.
type Holds struct {
	key []byte

	mu    sync.Mutex // guards calls
	calls map[string]*held
}

type held struct {
	*running
	expiry *time.Timer
}

// Bounds of the held calls.
const (
	maxHeld  = 256
	holdTime = 15 * time.Minute // longest time that a call is held
)

// NewHolds returns an empty Holds.
func NewHolds() *Holds {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // rand.Read never fails
	return &Holds{key: key, calls: map[string]*held{}}
}

// digest identifies a call by its caller, session, tool and arguments.
func digest(caller, session, name string, args []byte) string {
	h := sha256.New()
	for _, part := range []string{caller, session, name, string(args)} {
		fmt.Fprintf(h, "%d:", len(part))
		_, _ = io.WriteString(h, part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// keep holds a call and returns the question as the answer.
func (h *Holds) keep(r *running, mark string, w *client.Waiting) (*mcp.CallToolResult, error) {
	wait := min(time.Until(w.Until), holdTime)
	id := rand.Text()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.calls) >= maxHeld {
		err := errors.New("too many calls wait for a person")
		r.cancel(err)
		return refused(err.Error()), nil
	}
	h.calls[id] = &held{r, time.AfterFunc(wait, func() {
		if _, ok := h.remove(id); ok {
			r.cancel(errExpired)
		}
	})}
	until := strconv.FormatInt(time.Now().Add(wait).UnixMilli(), 10)
	return &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{r.asked: form(r.note)},
		RequestState:  strings.Join([]string{id, until, h.sign(id, until, mark)}, "."),
	}, nil
}

var errState = errors.New("this requestState is of no call that waits here: it was used, has expired, or is of " +
	"another caller, session or call. Make the call again without it")

// take removes a call and returns it to the caller that began it.
func (h *Holds) take(state, mark string) (*running, error) {
	parts := strings.Split(state, ".")
	if len(parts) != 3 || !hmac.Equal([]byte(parts[2]), []byte(h.sign(parts[0], parts[1], mark))) {
		return nil, errState
	}
	until, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || time.Now().UnixMilli() > until {
		return nil, errState
	}
	r, ok := h.remove(parts[0])
	if !ok {
		return nil, errState
	}
	return r, nil
}

func (h *Holds) remove(id string) (*running, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.calls[id]
	if !ok {
		return nil, false
	}
	c.expiry.Stop()
	delete(h.calls, id)
	return c.running, true
}

func (h *Holds) sign(id, until, mark string) string {
	m := hmac.New(sha256.New, h.key)
	fmt.Fprintf(m, "%s.%s.%s", id, until, mark)
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// Close cancels the calls that are held. It does not keep new ones from being held.
func (h *Holds) Close() {
	h.mu.Lock()
	ids := make([]string, 0, len(h.calls))
	for id := range h.calls {
		ids = append(ids, id)
	}
	h.mu.Unlock()
	for _, id := range ids {
		if r, ok := h.remove(id); ok {
			r.cancel(errExpired)
		}
	}
}
