package api

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"

	"golang.org/x/time/rate"

	"github.com/sandboxd/sandboxd/tool"
)

// Limits bound what one account may ask of the daemon; 0 is no bound. Operators
// have none: they must get through when an agent runs wild.
type Limits struct {
	PerSecond  int // requests; as many again may come at once
	Concurrent int // requests under way, streams and waiting questions included
}

// load counts the requests of each account. It outlives a reload, so that none
// resets it. The zero value is ready.
type load struct {
	mu       sync.Mutex
	accounts map[string]*account // guarded by mu; configured accounts are few
}

type account struct {
	rate  *rate.Limiter
	under int // way; guarded by load.mu
}

// enter admits a request of an agent, or says why not and when to come again.
func (l *load) enter(s *Server, r *http.Request, role tool.Role) (leave func(), err error) {
	p, _ := r.Context().Value(peerKey{}).(peer)
	if role == tool.RoleOperator || !p.known {
		return func() {}, nil
	}
	name := s.account(p.uid)
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[name]
	if a == nil {
		if l.accounts == nil {
			l.accounts = map[string]*account{}
		}
		a = &account{rate: rate.NewLimiter(rate.Inf, 0)}
		l.accounts[name] = a
	}
	if n := s.Limits.Concurrent; n > 0 && a.under >= n {
		return nil, tooMany(1, "too_many_requests", fmt.Sprintf("%d requests of account %s are under way, %d at most", a.under, name, n), "limits are set by api.concurrent")
	}
	if n := s.Limits.PerSecond; n > 0 {
		if a.rate.Limit() != rate.Limit(n) {
			a.rate = rate.NewLimiter(rate.Limit(n), n)
		}
		if again := a.rate.Reserve(); again.Delay() > 0 {
			wait := math.Ceil(again.Delay().Seconds())
			again.Cancel()
			return nil, tooMany(int(wait), "rate_limited", fmt.Sprintf("account %s sends more than %d requests a second", name, n), "limits are set by api.perSecond")
		}
	}
	a.under++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.under--
	}, nil
}

// retryError is a 429 with the time after which another try may help.
type retryError struct {
	httpError
	seconds int
}

func tooMany(seconds int, code, msg, hint string) error {
	return retryError{httpError{http.StatusTooManyRequests, &tool.Error{Code: code, Msg: msg, Hint: hint}}, seconds}
}

func (e retryError) Unwrap() error { return e.httpError }

func (e retryError) header(h http.Header) { h.Set("Retry-After", strconv.Itoa(e.seconds)) }
