package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/metrics"
)

const (
	sampleEvery = 15 * time.Second
	sampled     = 240 // samples kept: one hour
)

// sample holds the totals of the daemon at one time.
type sample struct {
	At time.Time
	metrics.Totals
}

// history holds the samples of the last hour.
type history struct {
	mu  sync.Mutex
	all []sample // oldest first; guarded by mu
}

func (h *history) add(one sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == sampled {
		h.all = slices.Delete(h.all, 0, 1)
	}
	h.all = append(h.all, one)
}

// until returns the history with one more sample, which it does not keep.
func (h *history) until(now sample) []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(slices.Clone(h.all), now)
}

// watch takes samples until ctx ends.
func (s *site) watch(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	self := route.Caller{UID: os.Getuid(), GID: os.Getgid()}
	for {
		one, err := s.sample(ctx, self)
		if err != nil {
			s.host.Log.Warn("the page has no sample of the metrics", "error", err)
		} else {
			s.history.add(one)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sample reads the metrics from their route.
func (s *site) sample(ctx context.Context, by route.Caller) (sample, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return sample{}, err
	}
	said := &answer{header: http.Header{}, code: http.StatusOK}
	s.host.Operators(by).ServeHTTP(said, req)
	if said.code != http.StatusOK {
		return sample{}, fmt.Errorf("GET /metrics: %d: %.200s", said.code, said.body.Bytes())
	}
	totals, err := metrics.Read(bytes.NewReader(said.body.Bytes()))
	return sample{time.Now(), totals}, err
}

// The size of a sparkline.
const sparkWide, sparkHigh = 240, 40

// spark is a sparkline of one number over the last hour.
type spark struct {
	Title, Now, Most string
	Points           string // of a polyline
	Class            string
}

// sparkOf draws values as a sparkline, with the newest at the right edge.
func sparkOf(title, class string, values []float64, words func(float64) string) spark {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	sp := spark{Title: title, Class: class, Now: "not known yet", Most: words(most)}
	var b strings.Builder
	for i, v := range values {
		x := float64(sparkWide) * float64(sampled-len(values)+i+1) / sampled
		y := sparkHigh - 1.0
		if most > 0 {
			y -= v / most * (sparkHigh - 2)
		}
		fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
		sp.Now = words(v)
	}
	sp.Points = strings.TrimSpace(b.String())
	return sp
}

// sparks returns the sparklines of a page. Their values are those of the intervals between samples.
func sparks(all []sample) []spark {
	rate := func(of func(metrics.Totals) float64) (out []float64) {
		for i := range len(all) - 1 {
			d, took := all[i+1].Since(all[i].Totals), all[i+1].At.Sub(all[i].At)
			out = append(out, max(0, of(d))/max(took, time.Second).Minutes())
		}
		return out
	}
	verdict := func(name string) []float64 {
		return rate(func(t metrics.Totals) float64 { return t.Verdicts[name] })
	}
	var median, waiting, memory []float64
	for i := range len(all) - 1 {
		median = append(median, all[i+1].Since(all[i].Totals).Median().Seconds())
		waiting, memory = append(waiting, all[i+1].Waiting), append(memory, all[i+1].Memory)
	}
	aMinute := func(v float64) string { return fmt.Sprintf("%.1f a minute", v) }
	return []spark{
		sparkOf("Calls", "", rate(func(t metrics.Totals) float64 { return t.Calls }), aMinute),
		sparkOf("Allowed", "allow", verdict("allow"), aMinute),
		sparkOf("Denied", "deny", verdict("deny"), aMinute),
		sparkOf("Failed or refused", "deny", rate(func(t metrics.Totals) float64 { return t.Failed }), aMinute),
		sparkOf("Half of the calls took", "", median, func(v float64) string {
			if v == 0 {
				return "no call"
			}
			return "at most " + time.Duration(v*float64(time.Second)).Round(100*time.Microsecond).String()
		}),
		sparkOf("Questions waiting", "ask", waiting, func(v float64) string { return fmt.Sprintf("%.0f", v) }),
		sparkOf("Memory of the daemon", "", memory, func(v float64) string {
			return fmt.Sprintf("%.0f MiB", v/(1<<20))
		}),
	}
}

func (s *site) health(w http.ResponseWriter, r *http.Request) {
	now, err := s.sample(r.Context(), personOf(r).caller())
	var status json.RawMessage
	if err == nil {
		_, err = s.get(r, "/status", &status)
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	all := s.history.until(now)
	shown := struct {
		Since  time.Time
		Total  metrics.Totals
		Sparks []spark
		Text   string
	}{all[0].At, now.Totals, sparks(all), cmp.Or(indented(status), string(status))}
	s.show(w, r, http.StatusOK, "health", view{Title: "Health", Section: "health", Data: shown})
}
