package route_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/route"
)

// answer is a ResponseRecorder that may be read while it is written.
type answer struct {
	mu sync.Mutex
	*httptest.ResponseRecorder
}

func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ResponseRecorder.Write(p)
}

func (a *answer) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Body.String()
}

// A stream in which nothing happens has a heartbeat every 15 s, through which both sides notice that the other
// is gone, and an event comes between two of them at once.
func TestW08_AStreamHasAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil)
		w := &answer{ResponseRecorder: httptest.NewRecorder()}
		from := make(chan int)
		go route.ServeStream(w, r, func(s *route.Writer) error {
			return route.Copy(s, from, func(n int) error { return s.Send("number", n) })
		})
		beats := func() int { return strings.Count(w.text(), ": ping\n\n") }
		for want := range 4 {
			synctest.Wait()
			if got := beats(); got != want {
				t.Errorf("after %d intervals there are %d heartbeats", want, got)
			}
			time.Sleep(15 * time.Second)
		}
		from <- 7
		synctest.Wait()
		if !strings.HasSuffix(w.text(), "event: number\ndata: 7\n\n") {
			t.Errorf("the event did not come: %q", w.text())
		}
		cancel()
		synctest.Wait()
		had := beats()
		time.Sleep(time.Minute)
		if beats() != had {
			t.Error("the heart beats for nobody")
		}
	})
}
