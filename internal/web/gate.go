package web

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/sandboxd/sandboxd/internal/route"
)

// policyOfContent allows a page its own style sheet, script and routes, and nothing else.
const policyOfContent = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'"

type personKey struct{}

// personOf returns the person of a request that loggedIn has let through.
func personOf(r *http.Request) person { return r.Context().Value(personKey{}).(person) }

// cookieName returns the name of the cookie. Under TLS it has a prefix by which browsers keep it for this host
// alone.
func (s *site) cookieName() string {
	if s.cert != nil {
		return "__Host-sandboxd"
	}
	return "sandboxd"
}

// handler returns the handler of the listener: the routes that everybody may use, and those that need a login.
func (s *site) handler() http.Handler {
	open, inside := http.NewServeMux(), http.NewServeMux()
	open.HandleFunc("GET /login", s.login)
	open.HandleFunc("GET /static/{name}", s.static)
	s.viewers(open)
	open.Handle("/", s.loggedIn(inside))
	inside.HandleFunc("POST /logout", s.logout)
	for _, pattern := range relayed {
		inside.HandleFunc(pattern, s.relay)
	}
	s.pages(inside)
	return s.guarded(open)
}

// guarded refuses requests that no page of this origin can have sent.
func (s *site) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policyOfContent)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if s.cert != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case !s.ours(r.Host):
			s.refuse(w, r, http.StatusMisdirectedRequest, "this is not the address of the page", "open "+s.origin())
		case site != "" && site != "same-origin" && site != "none" && !linked(r):
			s.refuse(w, r, http.StatusForbidden, "another site sent this request", "open the page by its own address")
		case r.Header.Get("Origin") != "" && !s.ownOrigin(r.Header.Get("Origin")):
			s.refuse(w, r, http.StatusForbidden, "another origin sent this request", "open the page by its own address")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ours reports whether a Host header names the listener: its address, or under TLS a name of the certificate. Browsers
// leave out the port if it is 80, or 443 under TLS.
func (s *site) ours(host string) bool {
	if s.cert == nil {
		at := s.listen.Addr().String()
		return host == at || host+":80" == at
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, "443"
	}
	_, own, _ := net.SplitHostPort(s.listen.Addr().String())
	return port == own && s.cert.Leaf.VerifyHostname(strings.Trim(name, "[]")) == nil
}

func (s *site) ownOrigin(origin string) bool {
	u, err := url.Parse(origin)
	scheme := "http"
	if s.cert != nil {
		scheme = "https"
	}
	return err == nil && u.Scheme == scheme && s.ours(u.Host)
}

// loggedIn lets requests with a login through. It lets changes through only from pages of this origin.
func (s *site) loggedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, _ := r.Cookie(s.cookieName())
		var who person
		ok, err := false, error(nil)
		if cookie != nil {
			who, ok, err = s.logins.who(r.Context(), cookie.Value, s.hours)
		}
		changes := r.Method != http.MethodGet && r.Method != http.MethodHead
		switch {
		case err != nil:
			s.failed(w, r, err)
		case !ok:
			s.refuse(w, r, http.StatusUnauthorized, "you are not logged in",
				"sandboxd web prints a link, for one login within a minute")
		case changes && (r.Header.Get("X-CSRF-Token") == "" || !equal(r.Header.Get("X-CSRF-Token"), who.CSRF)):
			s.refuse(w, r, http.StatusForbidden, "the request does not come from a page of this login",
				"load the page again")
		case changes && r.ContentLength != 0 && r.Header.Get("Content-Type") != "application/json":
			s.refuse(w, r, http.StatusUnsupportedMediaType, "changes are JSON", "send Content-Type: application/json")
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), personKey{}, who)))
		}
	})
}

// caller returns the person as a caller of the API.
func (p person) caller() route.Caller {
	return route.Caller{UID: p.UID, GID: p.GID, Groups: p.Groups, Person: p.Name}
}

// login exchanges the token of a link for a login. It answers with a page that then loads the next page, because a
// browser that follows a redirect from another site would not send the new cookie.
func (s *site) login(w http.ResponseWriter, r *http.Request) {
	cookie, ok, err := s.logins.login(r.Context(), r.URL.Query().Get("token"), s.hours)
	switch {
	case err != nil:
		s.failed(w, r, err)
		return
	case !ok:
		s.refuse(w, r, http.StatusForbidden, "this link was used, or is older than a minute",
			"sandboxd web prints another one")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(), Value: cookie, Path: "/", MaxAge: int(s.hours.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.cert != nil,
	})
	w.Header().Set("Refresh", "0; url=/")
	s.show(w, r, http.StatusOK, "message", view{Title: "Logged in", Data: message{Text: "You are logged in."}})
}

func (s *site) logout(w http.ResponseWriter, r *http.Request) {
	cookie, err := r.Cookie(s.cookieName())
	if err == nil {
		err = s.logins.logout(r.Context(), cookie.Value)
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(), Path: "/", MaxAge: -1,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.cert != nil,
	})
	w.WriteHeader(http.StatusNoContent)
}
