package approvals

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Webhook is an address that gets each [Notice].
//
// Each request carries its time in X-Sandboxd-Timestamp and, in
// X-Sandboxd-Signature, "sha256=" and the hex HMAC-SHA256 with Secret over the
// timestamp, a dot and the body.
type Webhook struct {
	URL    string
	Secret string       // at least 16 bytes
	Client *http.Client // nil is one that follows no redirects
}

const webhookTimeout = 10 * time.Second // of one request

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

// Send posts one notice, signed with Secret, as a [Send] must. It asks for another try if the webhook did not answer,
// was busy (429) or failed (5xx); every other answer is final.
func (h Webhook) Send(ctx context.Context, body []byte) (again bool, err error) {
	client := h.Client
	if client == nil {
		client = &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
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
	res, err := client.Do(req)
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
