package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Server is where a model is, and how it is spoken to.
type Server struct {
	Provider string // "anthropic" or "openai"
	BaseURL  string // "" is the provider's own
	Key      string
	// Silence is how long nothing of an answer may come, where pings do not count; 0 is 300 seconds.
	Silence time.Duration
}

// dialect is one of the two APIs.
type dialect interface {
	defaultBase() string
	path() string
	authorize(h http.Header, key string)
	body(Request) any
	// read turns the events of a response into ours, until the stream ends.
	read(*http.Response, func(Event)) error
}

const (
	defaultSilence = 300 * time.Second
	maxErrorBody   = 64 << 10
	maxAnswer      = 64 << 20 // bytes of a stream
	maxBlocks      = 1000     // of an answer: turns do not bound its calls
	maxContent     = 3 << 20  // bytes of an answer: the daemon takes 8 MB at once
)

type server struct {
	dialect
	http    *http.Client
	url     string
	key     string
	silence time.Duration
}

// New returns a client of a server. It connects when it is used.
func New(s Server) (Client, error) {
	dialects := map[string]dialect{"anthropic": anthropic{}, "openai": openAI{atHome: s.BaseURL == ""}}
	d, ok := dialects[s.Provider]
	if !ok {
		return nil, fmt.Errorf("unknown provider %q: anthropic or openai", s.Provider)
	}
	base := cmp.Or(s.BaseURL, d.defaultBase())
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the base URL is http:// or https:// with a host, without a user, a query or a fragment")
	}
	if s.Key == "" || strings.ContainsAny(s.Key, "\r\n\x00") {
		return nil, errors.New("the key of the model server is empty, or has a line break in it")
	}
	// The header of the key would go with a redirection to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return server{
		d, &http.Client{CheckRedirect: stay}, strings.TrimRight(base, "/") + d.path(), s.Key,
		cmp.Or(s.Silence, defaultSilence),
	}, nil
}

func (s server) Send(ctx context.Context, r Request) (Answer, error) {
	return s.Stream(ctx, r, func(Event) {})
}

func (s server) Stream(ctx context.Context, r Request, hear func(Event)) (Answer, error) {
	b := builder{answer: Answer{Model: r.Model}}
	err := s.stream(ctx, r, func(e Event) error {
		if b.whole {
			return nil // nothing comes behind the end
		}
		e.StopReason = clip(hide(e.StopReason, s.key)) // errors name it
		if e.Kind != MessageStop {                     // that is told last, once
			hear(e)
		}
		return b.add(e)
	})
	hear(Event{Kind: MessageStop})
	if err == nil || b.whole {
		b.answer, err = b.finish()
	}
	if e, ok := errors.AsType[*Error](err); ok {
		e.Msg = clip(hide(e.Msg, s.key)) // in this order: no part of the key is left at the cut
	}
	return b.answer, err
}

func (s server) stream(caller context.Context, r Request, tell func(Event) error) error {
	body, err := json.Marshal(s.body(r))
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	ctx, cancel := context.WithCancelCause(caller)
	defer cancel(nil)
	silent := time.AfterFunc(s.silence, func() { cancel(broken("nothing of an answer came for too long")) })
	defer silent.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	s.authorize(req.Header, s.key)
	res, err := s.http.Do(req)
	if err != nil {
		return ofNetwork(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what came of it says enough
		return ofStatus(res, text, time.Now())
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "text/event-stream" {
		return broken("the model server answered with %q and not with a stream of events", kind)
	}
	res.Body = io.NopCloser(io.LimitReader(res.Body, maxAnswer))
	err = s.read(res, func(e Event) {
		if e.Kind != Ping && (e.Kind != ContentBlockDelta || e.Delta != (Delta{Type: e.Delta.Type})) {
			silent.Reset(s.silence)
		}
		if ctx.Err() != nil {
			return
		}
		if wrong := tell(e); wrong != nil {
			cancel(wrong)
		}
	})
	// The caller left, the server was silent, or it sent what is no answer.
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
