package guard

import (
	"net/netip"
	"strings"
	"testing"
)

// TestX09_X13_Connect: what the settings say of a connection, port by port.
func TestX09_X13_Connect(t *testing.T) {
	n := Network{
		AllowedDomains: []string{
			"api.example", "*.pkg.example", "db.example:5432", "*.mail.example:993", "10.0.0.5", "Bücher.example",
			"[2001:db8::1]:8080",
		},
		DeniedDomains: []string{"bad.pkg.example", "*.ads.pkg.example", "api.example:80"},
	}
	for _, tt := range []struct {
		host string
		port int
		want Verdict
		rule string
	}{
		{"api.example", 443, Allow, "network.allowedDomains: api.example"},
		{"API.example.", 443, Allow, "network.allowedDomains: api.example"},
		{"api.example", 80, Deny, "network.deniedDomains: api.example:80"},
		{"api.example", 22, Deny, "network.allowedDomains"},
		{"a.pkg.example", 80, Allow, "network.allowedDomains: *.pkg.example"},
		{"a.b.pkg.example", 443, Allow, "network.allowedDomains: *.pkg.example"},
		{"pkg.example", 443, Deny, "network.allowedDomains"},
		{"notpkg.example", 443, Deny, "network.allowedDomains"},
		{"bad.pkg.example", 443, Deny, "network.deniedDomains: bad.pkg.example"},
		{"bad.pkg.example", 22, Deny, "network.deniedDomains: bad.pkg.example"},
		{"x.ads.pkg.example", 443, Deny, "network.deniedDomains: *.ads.pkg.example"},
		{"ads.pkg.example", 443, Allow, "network.allowedDomains: *.pkg.example"},
		{"db.example", 5432, Allow, "network.allowedDomains: db.example:5432"},
		{"db.example", 443, Deny, "network.allowedDomains"},
		{"imap.mail.example", 993, Allow, "network.allowedDomains: *.mail.example:993"},
		{"xn--bcher-kva.example", 443, Allow, "network.allowedDomains: Bücher.example"},
		{"10.0.0.5", 443, Allow, "network.allowedDomains: 10.0.0.5"},
		{"::ffff:10.0.0.5", 443, Allow, "network.allowedDomains: 10.0.0.5"},
		{"10.0.0.6", 443, Deny, "network.allowedDomains"},
		{"2001:db8::1", 8080, Allow, "network.allowedDomains: [2001:db8::1]:8080"},
		{"2001:db8::1", 443, Deny, "network.allowedDomains"},
		{"api.example", 0, Deny, "network: it is no host with a port"},
		{"api.example", 65536, Deny, "network: it is no host with a port"},
		{"a b", 443, Deny, "network: it is no host with a port"},
		{"api.example\x00.evil.test", 443, Deny, "network: it is no host with a port"},
		{"", 443, Deny, "network: it is no host with a port"},
	} {
		for _, unlisted := range []string{"", UnlistedDeny, UnlistedAsk} {
			n.Unlisted = unlisted
			want, rule := tt.want, tt.rule
			_, notAddr := netip.ParseAddr(tt.host)
			if unlisted == UnlistedAsk && rule == "network.allowedDomains" && notAddr != nil {
				want, rule = Ask, "network.unlisted: ask"
			}
			if got, by := n.Connect(tt.host, tt.port); got != want || by != rule {
				t.Errorf("%q %s:%d: got %v by %q, want %v by %q", unlisted, tt.host, tt.port, got, by, want, rule)
			}
		}
	}
	for _, host := range []string{"127.0.0.1", "169.254.169.254", "::1", "localhost", "a.localhost"} {
		if v, _ := (Network{Unlisted: UnlistedAsk}).Connect(host, 80); v != Deny {
			t.Errorf("%s: %v, want that nobody is asked", host, v)
		}
	}
	if v, _ := (Network{}).Connect("a.example", 443); v != Deny || (Network{}).Reaches() {
		t.Error("the zero value reaches a host")
	}
}

// TestHostsBeforeTheCall: of a host that a command names only the lists are known. A question is
// for whoever runs it outside of our cage; inside, it waits until a program connects.
func TestHostsBeforeTheCall(t *testing.T) {
	n := Network{AllowedDomains: []string{"db.example:5432"}, DeniedDomains: []string{"bad.test", "half.test:80"}}
	for _, tt := range []struct{ unlisted, host, rule string }{
		{UnlistedDeny, "db.example", ""},
		{UnlistedDeny, "other.test", "network.allowedDomains"},
		{"", "other.test", "network.allowedDomains"},
		{UnlistedAsk, "other.test", "network.unlisted: ask"},
		{UnlistedAsk, "half.test", "network.unlisted: ask"},
		{UnlistedAsk, "bad.test", "network.deniedDomains: bad.test"},
		{UnlistedAsk, "10.1.2.3", "network.allowedDomains"},
	} {
		n.Unlisted = tt.unlisted
		r := NewRules(Settings{Network: n})
		for _, j := range [][]Refusal{
			r.JudgeCommand("curl https://"+tt.host+"/", "/w", "/h").Reasons, r.Check(Uses{Hosts: []string{tt.host}}),
		} {
			var got Refusal
			if len(j) > 0 {
				got = j[0]
			}
			asks := tt.rule == "network.unlisted: ask"
			if got.Rule != tt.rule || got.Ask != asks || got.Caged != asks || got.Ours != asks {
				t.Errorf("%q %s: refused by %+v, want %q", tt.unlisted, tt.host, got, tt.rule)
			}
		}
	}
}

func TestNetworkIsChecked(t *testing.T) {
	for _, tt := range []struct{ doc, fails string }{
		{`{"network":{"allowedDomains":["a.example:0"]}}`, "a port from 1 to 65535"},
		{`{"network":{"allowedDomains":["a.example:65536"]}}`, "a port from 1 to 65535"},
		{`{"network":{"allowedDomains":["a.example:080"]}}`, "a port from 1 to 65535"},
		{`{"network":{"allowedDomains":["a.example:https"]}}`, "a port from 1 to 65535"},
		{`{"network":{"allowedDomains":["https://a.example"]}}`, "network.allowedDomains"},
		{`{"network":{"allowedDomains":["*"]}}`, "*.parent"},
		{`{"network":{"allowedDomains":["a.*.example"]}}`, "*.parent"},
		{`{"network":{"allowedDomains":["*.10.0.0.1"]}}`, "nothing below it"},
		{`{"network":{"allowedDomains":["localhost"]}}`, "network.hosts"},
		{`{"network":{"allowedDomains":["127.0.0.1:80"]}}`, "network.hosts"},
		{`{"network":{"deniedDomains":["a b"]}}`, "network.deniedDomains"},
		{`{"network":{"unlisted":"allow"}}`, `"allow" is not ask or deny`},
		{`{"network":{"hosts":{"*.a.test":"10.0.0.1"}}}`, "each name by itself"},
		{`{"network":{"hosts":{"localhost":"10.0.0.1"}}}`, "choose another name"},
		{`{"network":{"hosts":{"10.0.0.1":"10.0.0.2"}}}`, "give it a name"},
		{`{"network":{"hosts":{"a.test":"b.test"}}}`, "no address"},
		{`{"network":{"hosts":{"a.test":"10.0.0.1:0"}}}`, "no address"},
		{`{"network":{"hosts":{"a.test":"fe80::1%eth0"}}}`, "no address"},
		{`{"limits":{"networkBytes":-1}}`, "limits.networkBytes"},
		{`{"limits":{"networkConnections":-1}}`, "limits.networkConnections"},
		{`{"network":{"allowedDomains":["a.example","*.b.example:8443","::1:2"],"deniedDomains":["localhost"],` +
			`"unlisted":"ask","hosts":{"a.test":"10.0.0.1","b.test:443":"[::1]:8443"}}}`, ""},
	} {
		s, err := ParseSettings([]byte(tt.doc))
		if err == nil {
			_, _, err = s.Normalise()
		}
		if tt.fails == "" && err != nil || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%s: got %v, want %q", tt.doc, err, tt.fails)
		}
	}
	s := Settings{Network: Network{
		AllowedDomains: []string{"a.test"}, Hosts: map[string]string{"a.test": "10.0.0.1", "b.test": "10.0.0.2"},
	}}
	if w := strings.Join(s.warnings(), "\n"); !strings.Contains(w, "b.test may not be reached") || strings.Contains(w, "a.test") {
		t.Errorf("got warnings %q", w)
	}
	denied := Settings{Network: Network{DeniedDomains: []string{"a.test"}}}
	if w := strings.Join(denied.warnings(), "\n"); !strings.Contains(w, "network.deniedDomains has no effect") {
		t.Errorf("got warnings %q", w)
	}
}

func TestAddressesThatAreNotLookedUp(t *testing.T) {
	n := Network{Hosts: map[string]string{"A.test": "10.0.0.5", "a.test:443": "127.0.0.1:8443", "b.test:22": "::1"}}
	for _, tt := range []struct {
		host string
		port int
		want string
	}{
		{"a.test", 80, "10.0.0.5:80"},
		{"a.test", 443, "127.0.0.1:8443"},
		{"b.test", 22, "[::1]:22"},
		{"b.test", 80, ""},
		{"c.test", 80, ""},
	} {
		got, ok := n.Address(tt.host, tt.port)
		if ok != (tt.want != "") || ok && got.String() != tt.want {
			t.Errorf("%s:%d: got %v %v, want %q", tt.host, tt.port, got, ok, tt.want)
		}
	}
}

// TestNoNetworkTightensAll: the obligation of a policy leaves no host and no question.
func TestNoNetworkTightensAll(t *testing.T) {
	s := Settings{Network: Network{
		AllowedDomains: []string{"a.test"}, Unlisted: UnlistedAsk, Hosts: map[string]string{"a.test": "10.0.0.1"},
		AllowLocalBinding: true,
	}}.Tighten(Obligations{NoNetwork: true})
	if v, _ := s.Network.Connect("a.test", 443); v != Deny || s.Network.Reaches() || s.Network.AllowLocalBinding {
		t.Errorf("got %+v", s.Network)
	}
}
