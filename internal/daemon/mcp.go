package daemon

import "net/http"

// toItself sends requests of MCP to the daemon's own front. The front is made after the part that serves MCP.
type toItself struct{ d *daemon }

// RoundTrip implements [http.RoundTripper].
func (i toItself) RoundTrip(r *http.Request) (*http.Response, error) {
	return i.d.front.Inside().RoundTrip(r)
}
