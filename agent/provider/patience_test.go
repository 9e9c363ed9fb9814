package provider

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a server that answers after some time: with each of its answers in turn.
type slow []func() (after time.Duration, status int, header, text string)

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	after, status, header, text := (*s)[0]()
	*s = (*s)[1:]
	if err := Sleep(r.Context(), after); err != nil {
		return nil, err
	}
	h := http.Header{"Content-Type": {"text/event-stream"}, "Retry-After": {header}}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(text))}, nil
}

func after(d time.Duration, status int, header string) func() (time.Duration, int, string, string) {
	return func() (time.Duration, int, string, string) { return d, status, header, events(hello...) }
}

func patient(s slow) Asker {
	c := server{anthropic{}, &http.Client{Transport: &s}, "http://model", "k", defaultSilence}
	return Asker{Client: c, Base: 2 * time.Second, Max: 30 * time.Second, Said: func(string) {}, Spent: free}
}

// A first byte may take minutes, but not for ever.
func TestL04_AFirstByteAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := patient(slow{after(time.Minute, 200, "")}).Ask(t.Context(), Request{}, func(Event) {})
		if took := time.Since(began); err != nil || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		late := after(time.Hour, 200, "")
		_, err = patient(slow{late, late, late, late}).Ask(t.Context(), Request{}, func(Event) {})
		if failed, ok := errors.AsType[*Error](err); !ok || !strings.Contains(failed.Msg, "nothing of an answer came") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took < 21*time.Minute || took > 22*time.Minute {
			t.Errorf("it is given up after %v", took)
		}
	})
}

// What a server asks for is the least, as far as the user waits; without it the waits double.
func TestL19_RetryAfterIsTheLeast(t *testing.T) {
	for _, tt := range []struct {
		header      string
		least, most time.Duration // of three waits
	}{
		{"", 10500 * time.Millisecond, 17500 * time.Millisecond},
		{"20", 60 * time.Second, 60 * time.Second},
		{"3600", 90 * time.Second, 90 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s := slow{after(0, 429, tt.header), after(0, 500, tt.header), after(0, 529, tt.header), after(0, 200, "")}
			_, err := patient(s).Ask(t.Context(), Request{}, func(Event) {})
			if took := time.Since(began); err != nil || took < tt.least || took > tt.most {
				t.Errorf("Retry-After %q: %v after %v", tt.header, err, took)
			}
		})
	}
}

func free(Request, Answer) error { return nil }
