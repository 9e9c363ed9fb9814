package textcall

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

const (
	maxAnswer      = 1 << 20 // bytes of an answer that are read, and of a template with its arguments
	maxHeaders     = 64 << 10
	defaultTimeout = 15_000 // ms
	maxTimeout     = 120_000
)

// performer is a callable as a tool.
type performer struct {
	c    Callable
	name string // by which it is judged
}

// Spec implements [tool.Tool].
func (p performer) Spec() tool.Spec {
	s := tool.Spec{
		Name: p.name, Description: p.c.Description, Origin: tool.OriginModel, Class: tool.ClassState, ReadOnly: true,
		Schema:      json.RawMessage(`{"type":"object","additionalProperties":true}`),
		Annotations: &tool.Annotations{ReadOnly: true},
	}
	if p.c.Type == typeHTTP {
		s.Class, s.ReadOnly, s.Origin = tool.ClassNet, false, tool.OriginWeb
		s.Annotations = &tool.Annotations{Destructive: p.c.Method != http.MethodGet, OpenWorld: true}
	}
	return s
}

// Uses implements [tool.Tool].
func (p performer) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	if p.c.Type != typeHTTP {
		return guard.Uses{}, nil
	}
	_, u, err := read(in)
	if err != nil {
		return guard.Uses{}, err
	}
	return guard.Uses{Hosts: []string{u.Hostname()}}, nil
}

// read returns the arguments, and the address of an HTTP request.
func read(in tool.In) (g given, u *url.URL, err error) {
	if err := json.Unmarshal(in.Args, &g); err != nil {
		return g, nil, &tool.Error{Code: "invalid_arguments", Msg: "the arguments cannot be read: " + err.Error()}
	}
	if g.URL == "" {
		return g, nil, nil
	}
	address, err := render(g.URL, g.Args, component)
	if err != nil {
		return g, nil, err
	}
	if u, err = guard.ParseURL(address); err == nil && climbs(address) > climbs(g.URL) {
		err = errors.New("an argument would lead out of the path of its url")
	}
	if err != nil {
		return g, nil, &tool.Error{Code: "invalid_arguments", Msg: err.Error(), Hint: "look at the template of its url"}
	}
	return g, u, nil
}

// component escapes a part of a URL. It begins and ends no other part.
func component(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// climbs returns how many parts of the path of a URL servers read as directions.
func climbs(address string) (n int) {
	path, _, _ := strings.Cut(address, "?")
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			n++
		}
	}
	return n
}

// Run implements [tool.Tool].
func (p performer) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	g, u, err := read(in)
	switch {
	case err != nil:
		return tool.Output{}, err
	case p.c.Type == typeStatic:
		text, err := render(g.Text, g.Args, asIs)
		return tool.Output{Text: text}, err
	case p.c.Type != typeHTTP || u == nil:
		return tool.Output{Data: noAction}, nil
	}
	ctx, cancel := tool.Timeout(ctx, time.Duration(cmp.Or(g.TimeoutMS, defaultTimeout))*time.Millisecond)
	defer cancel()
	answer, err := send(ctx, in, box, g, u)
	if err != nil {
		return tool.Output{}, sendError(ctx, u, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return tool.Output{}, sendError(ctx, u, err)
	}
	if len(body) > maxAnswer {
		return tool.Output{}, &tool.Error{
			Code: "answer_too_large", Msg: fmt.Sprintf("%s answered more than %d bytes", u.Hostname(), maxAnswer),
			Hint: "ask for less",
		}
	}
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return tool.Output{}, &tool.Error{
			Code: "http_status", Msg: fmt.Sprintf("%s answered %d: %.500s", u.Hostname(), answer.StatusCode, text),
		}
	}
	if g.Response == "json" {
		var data any
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		if err := dec.Decode(&data); err != nil {
			return tool.Output{}, &tool.Error{
				Code: "not_json", Msg: fmt.Sprintf("%s answered no JSON: %.500s", u.Hostname(), text),
				Hint: "register it with response: text",
			}
		}
		return tool.Output{Data: data}, nil
	}
	return tool.Output{Text: text}, nil
}

// send makes one request over a connection of its own, which is judged.
func send(ctx context.Context, in tool.In, box sandbox.Box, g given, u *url.URL) (*http.Response, error) {
	roots, err := (&egress.Dialer{}).Roots(in.Rules.Network())
	if err != nil {
		return nil, err
	}
	if u, err = egress.Plain(u); err != nil {
		return nil, err
	}
	port, _ := strconv.Atoi(u.Port())
	to := egress.Connection{
		Host: u.Hostname(), Port: cmp.Or(port, 80), Protocol: egress.ProtocolHTTP, Method: g.Method,
		Path: cmp.Or(u.EscapedPath(), "/"), Via: egress.ViaFetch,
	}
	if u.Scheme == "https" {
		to.Protocol, to.Port = egress.ProtocolTLS, cmp.Or(port, 443)
	}
	dialled := false
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if dialled { // a request is never sent twice
				return nil, net.ErrClosed
			}
			dialled = true
			return box.Dial(ctx, to)
		},
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeaders,
	}
	body, err := render(g.Body, g.Args, asIs)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, g.Method, u.String(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "sandboxd")
	for name, value := range g.Headers {
		if value, err = render(value, g.Args, asIs); err != nil {
			return nil, err
		}
		request.Header.Set(name, value)
	}
	return transport.RoundTrip(request)
}

func asIs(s string) string { return s }

func sendError(ctx context.Context, u *url.URL, err error) error {
	var refused *egress.RefusedError
	if _, own := errors.AsType[*tool.Error](err); own {
		return err
	}
	switch {
	case errors.As(err, &refused):
		return &tool.Error{Code: "host_denied", Msg: refused.Error(), Hint: refused.Verdict.Hint}
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return &tool.Error{Code: "timeout", Msg: u.Hostname() + " did not answer in time"}
	}
	return &tool.Error{Code: "fetch_failed", Msg: fmt.Sprintf("%s: %s", u.Hostname(), egress.Failure(err))}
}

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// checkHTTP refuses a request that can never be made, and fills in defaults.
func (c *Callable) checkHTTP() error {
	c.Method, c.Response = cmp.Or(c.Method, http.MethodGet), cmp.Or(c.Response, "json")
	c.TimeoutMS = cmp.Or(c.TimeoutMS, defaultTimeout)
	switch {
	case !strings.HasPrefix(c.URL, "http://") && !strings.HasPrefix(c.URL, "https://"):
		return fmt.Errorf("url %.100q does not begin with http:// or https://", c.URL)
	case !slices.Contains(methods, c.Method):
		return fmt.Errorf("method %.20q is none of %s", c.Method, strings.Join(methods, ", "))
	case c.Response != "json" && c.Response != "text":
		return fmt.Errorf("response %.20q is neither json nor text", c.Response)
	case c.TimeoutMS < 1 || c.TimeoutMS > maxTimeout:
		return fmt.Errorf("timeout_ms %d is not between 1 and %d", c.TimeoutMS, maxTimeout)
	case c.Text != "":
		return errors.New("give text or url: a callable answers a text, or makes a request")
	}
	for name := range c.Headers {
		if strings.EqualFold(name, "Host") {
			return errors.New("headers: the host is that of the url")
		}
	}
	return nil
}
