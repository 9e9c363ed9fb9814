package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/policy"
)

// viewPath returns the path of the link with a token.
func viewPath(token string) string { return "/shared/" + token }

// linked reports whether a request opens a link. People open links from other sites.
func linked(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.URL.Path, viewPath(""))
	return r.URL.Path == "/login" || ok && !strings.Contains(token, "/") && r.Method == http.MethodGet
}

// viewers registers the routes for people who have a link. They can read one session, with secrets masked, and
// change nothing: POST only takes the password of a link.
func (s *site) viewers(mux *http.ServeMux) {
	for pattern, show := range map[string]func(http.ResponseWriter, *http.Request, Share){
		"GET /shared/{token}":                   s.viewed,
		"GET /shared/{token}/calls/{id}":        s.viewedCall,
		"GET /shared/{token}/calls/{id}/output": s.viewedOutput,
		"GET /shared/{token}/events":            s.viewedEvents,
	} {
		mux.HandleFunc(pattern, s.viewing(show))
	}
	mux.HandleFunc("POST /shared/{token}", s.viewerPassword)
}

const viewerCookie = "sandboxd_viewer"

// viewing lets requests through if their link works and they passed its password. It reads with the rights of the
// operator who made the link.
func (s *site) viewing(show func(http.ResponseWriter, *http.Request, Share)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Robots-Tag", "noindex, nofollow")
		x, ok, err := s.shares.find(r.Context(), r.PathValue("token"))
		switch {
		case err != nil:
			s.failed(w, r, err)
		case !ok:
			s.ended(w, r)
		case x.Password && !s.shares.passed(x, r):
			s.askPassword(w, http.StatusUnauthorized, "")
		default:
			show(w, r.WithContext(context.WithValue(r.Context(), personKey{}, x.maker)), x)
		}
	}
}

// ended gives the same answer for every token that does not work.
func (s *site) ended(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, http.StatusForbidden, "this link does not work, or no longer",
		"it has ended or was revoked: ask for another one")
}

func (s *site) askPassword(w http.ResponseWriter, code int, wrong string) {
	w.Header().Set("Referrer-Policy", "same-origin") // with no-referrer, Origin would be null
	s.write(w, code, "shared", "password", view{Title: "A password is needed", Data: message{Text: wrong}})
}

// viewerPassword checks the password of a link. It remembers the browser until the daemon ends.
func (s *site) viewerPassword(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	token := r.PathValue("token")
	x, ok, err := s.shares.find(r.Context(), token)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	if !ok {
		s.ended(w, r)
		return
	}
	if !x.Password {
		w.Header().Set("Allow", "GET, HEAD")
		s.refuse(w, r, http.StatusMethodNotAllowed, "who has this link can look, and do nothing", "")
		return
	}
	if !s.shares.mayTry(x) {
		w.Header().Set("Retry-After", strconv.Itoa(int(passwordRate.Seconds())))
		s.askPassword(w, http.StatusTooManyRequests, "Too many passwords were tried. Wait a minute.")
		return
	}
	if !isPassword(x.password, r.PostFormValue("password")) {
		address, browser := whoLooks(r)
		err := s.noteShare(r.Context(), "web_share_refused", x, "a wrong password was given on a link",
			map[string]string{"address": address, "browser": browser})
		if err != nil {
			s.failed(w, r, err)
			return
		}
		s.askPassword(w, http.StatusForbidden, "This is not the password.")
		return
	}
	cookie, ok := s.shares.pass(x)
	if !ok {
		s.refuse(w, r, http.StatusTooManyRequests, errManyLooks.Error(), "ask for another link")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: viewerCookie, Value: cookie, Path: viewPath(token), MaxAge: int(time.Until(x.Ends).Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.cert != nil,
	})
	http.Redirect(w, r, viewPath(token), http.StatusSeeOther)
}

// passed reports whether a browser has entered the password of a link.
func (s *shares) passed(x Share, r *http.Request) bool {
	cookie, err := r.Cookie(viewerCookie)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && s.on[x.ID] != nil && s.on[x.ID].passed[digest(cookie.Value)]
}

// pass returns the cookie for a browser that has entered the password.
func (s *shares) pass(x Share) (cookie string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.of(x)
	if len(w.passed) >= maxLooks {
		return "", false
	}
	cookie = newToken()
	w.passed[digest(cookie)] = true
	return cookie, true
}

// mayTry takes one of the tries of a link's password.
func (s *shares) mayTry(x Share) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(x).tries.Allow()
}

// whoLooks returns the address of a browser and its User-Agent.
func whoLooks(r *http.Request) (address, browser string) {
	address, _, _ = net.SplitHostPort(r.RemoteAddr)
	browser = r.UserAgent()
	return address, strings.ToValidUTF8(browser[:min(len(browser), maxBrowser)], "")
}

// viewed shows the session to a viewer.
func (s *site) viewed(w http.ResponseWriter, r *http.Request, x Share) {
	address, browser := whoLooks(r)
	err := s.shares.looked(r.Context(), x.ID, address, browser, func() error {
		return s.noteShare(r.Context(), "web_share_opened", x, "a link to look at the session was opened",
			map[string]string{"for": x.For, "address": address, "browser": browser})
	})
	if errors.Is(err, errManyLooks) {
		s.refuse(w, r, http.StatusTooManyRequests, err.Error(), "ask for another link")
		return
	}
	shown := struct {
		Session session
		Base    string
		Ends    time.Time
		Running []runningCall
		Calls   page[policy.Judged]
	}{Base: viewPath(r.PathValue("token")), Ends: x.Ends}
	if err == nil {
		_, err = s.get(r, "/sessions/"+url.PathEscape(x.Session), &shown.Session)
	}
	if err == nil && offset(r) == "0" {
		shown.Running, err = s.running(r, x.Session)
	}
	var at list
	if err == nil {
		at, err = s.get(r, fmt.Sprintf("/decisions?session_id=%s&limit=%d&offset=%s",
			url.QueryEscape(x.Session), pageSize, offset(r)), &shown.Calls.Rows)
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	shown.Running = without(shown.Running, shown.Calls.Rows)
	if at.HasMore {
		shown.Calls.Next = at.Offset + len(shown.Calls.Rows)
	}
	s.write(w, http.StatusOK, "shared", "session", view{Title: shown.Session.Name(), Data: shown})
}

// isViewed returns false, after it has refused the request, unless the call belongs to the session of the link.
func (s *site) isViewed(w http.ResponseWriter, r *http.Request, x Share) bool {
	all, err := s.running(r, x.Session)
	if err == nil && slices.ContainsFunc(all, func(c runningCall) bool { return c.ID == r.PathValue("id") }) {
		return true
	}
	var rec policy.Record
	if err == nil {
		_, err = s.get(r, "/decisions/"+url.PathEscape(r.PathValue("id")), &rec)
	}
	said, failed := errors.AsType[*apiError](err)
	if failed && said.Status == http.StatusNotFound || err == nil && rec.Session != x.Session {
		s.refuse(w, r, http.StatusNotFound, "there is no such call in this session", "")
		return false
	}
	if err != nil {
		s.failed(w, r, err)
		return false
	}
	return true
}

// viewedCall shows the result of a call.
func (s *site) viewedCall(w http.ResponseWriter, r *http.Request, x Share) {
	if s.isViewed(w, r, x) {
		s.fragment(w, "shared", "ran", s.resultOf(r))
	}
}

// viewedOutput streams the output of a call.
func (s *site) viewedOutput(w http.ResponseWriter, r *http.Request, x Share) {
	if !s.isViewed(w, r, x) {
		return
	}
	if ctx, leave, ok := s.stream(w, r, x); ok {
		defer leave()
		s.live(w, ctx, r)
	}
}

// stream returns a context for a stream of a link. It ends with the link.
func (s *site) stream(w http.ResponseWriter, r *http.Request, x Share) (ctx context.Context, leave func(), ok bool) {
	ctx, cancel := context.WithDeadline(r.Context(), x.Ends)
	left, ok := s.shares.open(x, cancel)
	if !ok {
		cancel()
		w.Header().Set("Retry-After", "10")
		s.refuse(w, r, http.StatusTooManyRequests, fmt.Sprintf("%d pages of this link are open", maxStreams),
			"close one")
		return nil, nil, false
	}
	leave = func() { left(); cancel() }
	if _, ok, err := s.shares.find(ctx, r.PathValue("token")); err != nil || !ok {
		leave()
		s.ended(w, r)
		return nil, nil, false
	}
	return ctx, leave, true
}

// viewedEvents tells the page when something happens in the session.
func (s *site) viewedEvents(w http.ResponseWriter, r *http.Request, x Share) {
	ctx, leave, ok := s.stream(w, r, x)
	if !ok {
		return
	}
	defer leave()
	seen := []events.Type{events.CallBegin, events.CallWaiting, events.CallEnd}
	keep := func(e events.Event) bool { return e.Session == x.Session && slices.Contains(seen, e.Type) }
	stream, err := s.host.Events.Stream(ctx, keep, nil)
	if err != nil {
		s.refuse(w, r, http.StatusTooManyRequests, err.Error(), "try again in a moment")
		return
	}
	route.ServeStream(w, r.WithContext(ctx), stream)
}
