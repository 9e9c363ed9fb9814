package egress

import (
	"io"
	"net/http"
	"testing"
)

// TestAnswersThatAreSlow: the header and each piece of a body reach the program before the host
// goes on, which waits for that here.
func TestAnswersThatAreSlow(t *testing.T) {
	went := make(chan struct{})
	slow := func(rw http.ResponseWriter, r *http.Request) {
		for _, piece := range []string{"", "one", "two"} {
			io.WriteString(rw, piece)
			http.NewResponseController(rw).Flush()
			select {
			case <-went:
			case <-r.Context().Done():
			}
		}
	}
	read := func(t *testing.T, c *http.Client, url string) {
		t.Helper()
		res, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		went <- struct{}{}
		for _, want := range []string{"one", "two"} {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
				t.Fatalf("got %q, %v", got, err)
			}
			went <- struct{}{}
		}
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
			t.Errorf("then %q, %v", rest, err)
		}
	}
	t.Run("in the clear", func(t *testing.T) {
		w := newWorld(t)
		w.web("a.test", slow)
		c := w.client(nil)
		for range 2 { // the second on the connection of the first
			read(t, c, "http://a.test/")
		}
	})
	for _, h2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "intercepted", true: "intercepted, by HTTP/2"}[h2], func(t *testing.T) {
			i := newIntercepted(t)
			i.serve("api.test", certificate(t, "api.test"), slow)
			c := i.programs(h2)
			for range 2 {
				read(t, c, "https://api.test/")
			}
		})
	}
}
