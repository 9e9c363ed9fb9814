package daemon

import "net/http"

// toItself sends the requests of MCP to the front, which is made after what serves MCP.
type toItself struct{ d *daemon }

// RoundTrip implements [http.RoundTripper].
func (i toItself) RoundTrip(r *http.Request) (*http.Response, error) {
	return i.d.front.Inside().RoundTrip(r)
}
