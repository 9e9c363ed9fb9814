package approvals

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/tool"
)

// Webhook tells another program that a question waits, for when nobody watches.
// It says which tool is asked about and why, in the words of the rules, never
// the arguments or the result: those are read over the operator socket.
//
// Each request carries its time in X-Sandboxd-Timestamp and, in
// X-Sandboxd-Signature, "sha256=" and the hex HMAC-SHA256 with Secret over the
// timestamp, a dot and the body.
type Webhook struct {
	URL    string
	Secret string                       // at least 16 bytes
	Client *http.Client                 // nil is one that follows no redirects
	Failed func(id string, cause error) // told of what could not be sent; may be nil
}

// Notice is the body of a webhook.
type Notice struct {
	Event     EventKind     `json:"event"`
	ID        string        `json:"id"`
	Type      Type          `json:"type"`
	SessionID string        `json:"session_id"`
	Tool      string        `json:"tool_name"`
	Why       []tool.Reason `json:"why"`
	CreatedAt time.Time     `json:"created_at"`
	ExpiresAt time.Time     `json:"expires_at"`
}

const (
	webhookTries   = 6                // waits of 1, 2, 4, 8 and 16 s between them
	webhookTimeout = 10 * time.Second // of one request
)

// Check refuses a webhook that cannot work or would not be safe.
func (h Webhook) Check() error {
	u, err := url.Parse(h.URL)
	if err != nil {
		return fmt.Errorf("webhook url %q: %w", h.URL, err)
	}
	if (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return fmt.Errorf("webhook url %q: want http:// or https:// and a host", h.URL)
	}
	if len(h.Secret) < 16 {
		return fmt.Errorf("webhook secret has %d bytes, want at least 16", len(h.Secret))
	}
	return nil
}

// Notify sends a notice for every question, those that wait already included,
// until ctx ends or the queue closes. Questions go one after the other; one that
// is answered before its turn is left out.
func (q *Queue) Notify(ctx context.Context, h Webhook) error {
	if err := h.Check(); err != nil {
		return err
	}
	if h.Client == nil {
		h.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	sent := map[string]bool{}
	for ctx.Err() == nil && !q.isClosed() {
		events := q.Subscribe(ctx) // before the list, so that nothing falls between
		page, err := q.List(ctx, Filter{})
		if err != nil {
			return err
		}
		still := map[string]bool{}
		for _, item := range page.Items {
			still[item.ID] = sent[item.ID]
			q.notice(ctx, h, item, still)
		}
		sent = still
		for e := range events { // ends when ctx does, or when this fell behind
			if e.Kind == EventDecided {
				delete(sent, e.Item.ID)
				continue
			}
			q.notice(ctx, h, e.Item, sent)
		}
	}
	return nil
}

func (q *Queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed != ""
}

func (q *Queue) isWaiting(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting[id] != nil
}

// notice sends one notice, with retries while the question waits.
func (q *Queue) notice(ctx context.Context, h Webhook, i Item, sent map[string]bool) {
	if sent[i.ID] {
		return
	}
	sent[i.ID] = true
	body, err := json.Marshal(Notice{
		Event: EventAsked, ID: i.ID, Type: i.Type, SessionID: i.SessionID, Tool: i.Tool,
		Why: i.Why, CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt,
	})
	again := err == nil
	for try := 0; again && try < webhookTries; try++ {
		if try > 0 && !pause(ctx, time.Second<<(try-1)) {
			return
		}
		if !q.isWaiting(i.ID) {
			return
		}
		again, err = h.post(ctx, body)
	}
	if err != nil && h.Failed != nil {
		h.Failed(i.ID, err)
	}
}

// post sends the body once; again says that another try may help.
func (h Webhook) post(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Sandboxd-Timestamp", at)
	req.Header.Set("X-Sandboxd-Signature", "sha256="+sign(h.Secret, at, body))
	res, err := h.Client.Do(req)
	if err != nil {
		return true, err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode/100 == 2:
		return false, nil
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500:
		return true, fmt.Errorf("webhook answered %s", res.Status)
	}
	return false, errors.New("webhook refused: " + res.Status)
}

func sign(secret, at string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(at + "."))
	m.Write(body)
	return hex.EncodeToString(m.Sum(nil))
}

// pause waits; false means that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
