package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestX12_AnAccountHasAPace: its programs, and its other session, wait together.
func TestX12_AnAccountHasAPace(t *testing.T) {
	t.Parallel()
	needs.Program(t, "curl")
	page := make([]byte, 200_000) // twice what passes at once, so its second half waits, whatever passed before
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }))
	t.Cleanup(up.Close)
	d := newDaemon(t, fmt.Sprintf(`
sessions: {mode: auto}
limits: {accountNetwork: {bytesPerSecond: 100000}}
sandbox:
  network:
    allowedDomains: [up.test, "up.test:8080"]
    hosts: {"up.test:80": %[1]q, "up.test:8080": %[1]q}
`, up.Listener.Addr()))
	d.needsWayOut()
	for _, url := range []string{"http://up.test/", "http://up.test:8080/"} {
		r := d.call(d.session(), "Bash", curl(url+" | wc -c"))
		if r.FormattedText != "200000\n" || r.Network == nil || r.Network.WaitedMS == 0 {
			t.Errorf("%s: got %q %+v", url, r.FormattedText, r.Network)
		}
	}
}
