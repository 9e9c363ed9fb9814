package web

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// at is a listener that says it has this address.
type at struct {
	net.Listener
	netip.AddrPort
}

func (l at) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.AddrPort) }

// Browsers leave out the port that is usual, 80 or 443, and so do links to the page.
func TestW04_ThePageAtAUsualPort(t *testing.T) {
	for _, tt := range []struct {
		name, at, origin string
		tls              []string // names of the certificate; nil is no TLS
		ours             map[string]bool
	}{
		{
			"80", "127.0.0.1:80", "http://127.0.0.1", nil,
			map[string]bool{"127.0.0.1": true, "127.0.0.1:80": true, "127.0.0.1:443": false, "127.0.0.2": false},
		},
		{
			"80 of IPv6", "[::1]:80", "http://[::1]", nil,
			map[string]bool{"[::1]": true, "[::1]:80": true, "::1": false, "[::2]": false},
		},
		{
			"another that ends in 80", "127.0.0.1:8080", "http://127.0.0.1:8080", nil,
			map[string]bool{"127.0.0.1:8080": true, "127.0.0.1:80": false, "127.0.0.1": false},
		},
		{
			"443 without TLS", "127.0.0.1:443", "http://127.0.0.1:443", nil,
			map[string]bool{"127.0.0.1:443": true, "127.0.0.1": false},
		},
		{
			"443 under TLS", "127.0.0.1:443", "https://page.test",
			[]string{"page.test"},
			map[string]bool{"page.test": true, "page.test:443": true, "page.test:80": false, "evil.test": false},
		},
		{
			"80 under TLS", "127.0.0.1:80", "https://page.test:80",
			[]string{"page.test"},
			map[string]bool{"page.test:80": true, "page.test": false},
		},
		{
			"443 under TLS, without a name", "127.0.0.1:443", "https://192.0.2.7",
			[]string{},
			map[string]bool{"192.0.2.7": true, "192.0.2.7:443": true, "127.0.0.1": false},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := newSite(t)
			s.listen = at{s.listen, netip.MustParseAddrPort(tt.at)}
			scheme := "http://"
			if tt.tls != nil {
				s.cert, scheme = certified(t, tt.tls...), "https://"
			}
			if got := s.origin(); got != tt.origin || !s.ownOrigin(got) {
				t.Errorf("links lead to %s, want %s; it is its own: %t", got, tt.origin, s.ownOrigin(got))
			}
			for host, want := range tt.ours {
				if ours, own := s.ours(host), s.ownOrigin(scheme+host); ours != want || own != want {
					t.Errorf("%s: its address %t, its origin %t, want %t", host, ours, own, want)
				}
				r := httptest.NewRequestWithContext(t.Context(), "GET", "/static/page.css", nil)
				r.Host = host
				w := httptest.NewRecorder()
				s.handler().ServeHTTP(w, r)
				if refused := w.Code == http.StatusMisdirectedRequest; refused == want {
					t.Errorf("%s: status %d", host, w.Code)
				}
			}
		})
	}
	s, _ := newSite(t)
	s.listen, s.cert = at{s.listen, netip.MustParseAddrPort("[::1]:443")}, certified(t)
	s.cert.Leaf.IPAddresses = []net.IP{net.IPv6loopback}
	if got := s.origin(); got != "https://[::1]" {
		t.Errorf("with an address of IPv6 in the certificate links lead to %s", got)
	}
}
