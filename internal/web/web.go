// Package web serves a page on which people answer questions, and watch what agents do.
//
//	p, err := web.Definition().Open(ctx, host) // host.Config says where, host.Operators answers
//	p.Routes            // of the daemon: POST /web/links answers a Link for one login; shares
//	err = p.Serve(ctx)  // until ctx is done; at once if the page is off
//	err = p.Close()
//
// It has a listener of its own (web.listen, off by default). That is on loopback unless it speaks
// TLS. `sandboxd web --as Ada` gets a link over the operator socket. The link is good for one
// login within a minute. The browser then has a cookie, for web.sessionHours. Changes also need a
// second token, which only pages of this origin show.
//
// The page is a client of the operator's API, with the rights of the operator who made the link.
// Below /v1/ the listener serves all reads, and the changes that relay.go lists. Of these changes,
// only an undo makes a new call. None changes the daemon as a whole. The record names the person, as
// the operator wrote the name.
//
// Text of others is shown as text, and invisible characters are shown as escapes, but not in the
// boxes where a person edits arguments: what stands there is sent as it is. Secrets of known forms
// are masked in everything but the questions, which are shown as they will be answered.
//
// An operator can also make links for viewers (POST /sessions/{id}/shares), with a password or
// without. Whoever has one reads one session, with secrets masked, until the link ends or is
// revoked, and cannot change it.
//
// What is refused: another Host than the listener's (DNS rebinding), requests that another site or
// another port made, except to open a link, and changes without the second token or in another
// form than JSON. Viewers send the password of a link as a form.
//
// Not guaranteed: a server on another port of the same host name gets the cookie when a person
// visits it, because browsers share cookies between ports, and could then use it. Where that
// matters, open the page under a name that serves nothing else.
//
// A new page is page/NAME.html, its name in names (files.go), and its pattern in pages (pages.go)
// with a handler that calls show. The handler reads by s.get, which masks secrets. The template
// shows text of others only through the function text, or through the elements of parts.html, which
// use it. A script is a file in page and an element of kinds (files.go). A new change is an element
// of relayed (relay.go).
//
// An error of the API, or a refusal, is a page for a person and JSON with a code for a program; if a
// template fails, nothing of the page is shown. What pages show is tested in pages_test.go, links for
// viewers in share_test.go, what may be changed in site_test.go, and scripts in a real browser in
// tests/web (make test-web).
package web

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Definition defines the page as a part of the daemon.
func Definition() part.Definition {
	return part.Definition{
		Name:     "web",
		Schema:   store.Embedded("web", migrations),
		Config:   func() part.Config { return &Config{SessionHours: 12} },
		Open:     open,
		Describe: func(part.Config) part.Part { return (&site{}).part() },
	}
}

// site is the page of a daemon.
type site struct {
	host   part.Host
	hours  time.Duration // lifetime of a login
	logins logins
	shares shares
	listen net.Listener     // nil: the page is off
	cert   *tls.Certificate // nil: plain HTTP on loopback
	files  files

	history history
}

func open(_ context.Context, h part.Host) (part.Part, error) {
	c := h.Config.(*Config)
	s := &site{
		host: h, hours: time.Duration(c.SessionHours) * time.Hour,
		logins: logins{db: h.DB}, shares: shares{db: h.DB},
	}
	if c.Listen == "" {
		return s.part(), nil
	}
	var err error
	if s.files, err = readFiles(); err != nil {
		return part.Part{}, err
	}
	if c.TLS.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile)
		if err != nil {
			return part.Part{}, fmt.Errorf("web.tls: %w", err)
		}
		s.cert = &cert
	}
	if s.listen, err = net.Listen("tcp", c.Listen); err != nil {
		return part.Part{}, fmt.Errorf("web.listen: %w", err)
	}
	return s.part(), nil
}

func (s *site) part() part.Part {
	return part.Part{
		Routes: append(s.shareRoutes(), route.Route{
			Pattern: "POST /web/links", Role: tool.RoleOperator, Handle: s.makeLink,
			Spec: route.Spec{
				ID: "makeWebLink", Summary: "A link for one login on the page, for a minute",
				In: linkRequest{}, Out: Link{}, Created: true, Errors: []int{409},
			},
		}),
		Own: true, Deleted: deleted,
		Forget: func(_ context.Context, gone tool.Session) error {
			s.shares.close(func(_ string, w *watched) bool { return w.session == gone.ID })
			return nil
		},
		Serve: s.serve,
		Close: func() error {
			if s.listen == nil {
				return nil
			}
			if err := s.listen.Close(); !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil
		},
		Status: func() any {
			if s.listen == nil {
				return nil
			}
			return map[string]string{"url": s.origin()}
		},
	}
}

// maxConnections bounds the connections, so that people without a login cannot use up the open files of the daemon.
// An open page has two connections.
const maxConnections = 256

// serve serves the listener until ctx ends. Then it also ends the streams.
func (s *site) serve(ctx context.Context) error {
	if s.listen == nil {
		return nil
	}
	srv := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
		BaseContext:    func(net.Listener) context.Context { return route.WithStop(ctx, ctx) },
		ErrorLog:       slog.NewLogLogger(s.host.Log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	go s.watch(ctx)
	l := netutil.LimitListener(s.listen, maxConnections)
	if s.cert != nil {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*s.cert}, MinVersion: tls.VersionTLS12})
	}
	if err := srv.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}

// origin returns the origin of the page, as a browser names it.
func (s *site) origin() string {
	if s.cert == nil {
		return "http://" + strings.TrimSuffix(s.listen.Addr().String(), ":80")
	}
	_, port, _ := net.SplitHostPort(s.listen.Addr().String())
	host := s.cert.Leaf.Subject.CommonName
	if names := s.cert.Leaf.DNSNames; len(names) > 0 {
		host = names[0]
	} else if ips := s.cert.Leaf.IPAddresses; len(ips) > 0 {
		host = ips[0].String()
	}
	return "https://" + strings.TrimSuffix(net.JoinHostPort(host, port), ":443")
}
