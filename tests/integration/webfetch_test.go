package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// TestT48_X09_X12_WebFetchObeysTheNetworkSettings: a page of a listed host is read; one
// of another is refused, and so is a page that leads there. No connection is made.
func TestT48_X09_X12_WebFetchObeysTheNetworkSettings(t *testing.T) {
	var elsewhere atomic.Int32
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host != "docs.test":
			elsewhere.Add(1)
		case r.URL.Path == "/out":
			http.Redirect(w, r, "http://evil.test/", http.StatusFound)
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<h1>Guide</h1><script>x</script><p>See <a href="next">more</a>.`)
		}
	}))
	defer upstream.Close()
	d := newDaemon(t, fmt.Sprintf(`
sessions: {mode: auto}
sandbox:
  network:
    allowedDomains: [docs.test]
    unlisted: deny
    hosts: {"docs.test:80": %[1]q, "evil.test:80": %[1]q}
`, upstream.Listener.Addr()))
	s := d.session()
	r := d.call(s, "WebFetch", `{"url":"http://docs.test/guide","prompt":"more"}`)
	if r.Status != client.StatusSuccess || !strings.Contains(r.FormattedText, "# Guide\n\nSee [more](http://docs.test/next).") {
		t.Fatalf("got %s %q %+v", r.Status, r.FormattedText, r.Error)
	}
	if r.Network == nil || len(r.Network.Connections) != 1 || r.Network.Connections[0].Via != "fetch" ||
		r.Network.Connections[0].BytesIn == 0 {
		t.Errorf("got %+v", r.Network)
	}
	var origins struct{ Session []string }
	if err := d.agent.Do(t.Context(), "GET", "/sessions/"+s+"/origins", nil, &origins); err != nil ||
		!strings.Contains(fmt.Sprint(origins), "web") {
		t.Errorf("the page is not the web's: %+v, %v", origins, err)
	}
	for url, stage := range map[string]string{"http://evil.test/": "judge", "http://docs.test/out": "run"} {
		d.forget(s)
		r := d.call(s, "WebFetch", fmt.Sprintf(`{"url":%q}`, url))
		if r.Error == nil || r.Error.Code != "host_denied" || r.Error.Stage != stage || r.Error.Hint == "" {
			t.Errorf("%s: got %+v", url, r.Error)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d connections to a host that is not listed", n)
	}
}
