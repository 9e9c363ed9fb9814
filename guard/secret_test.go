package guard

import (
	"strings"
	"testing"
)

func TestSecretsAreRefused(t *testing.T) {
	ok := Secret{Host: "api.test", File: "/token"}
	with := func(change func(*Secret)) Network {
		s := ok
		change(&s)
		return Network{Intercept: []string{"api.test"}, Secrets: []Secret{s}}
	}
	for _, tt := range []struct {
		name, want string
		n          Network
	}{
		{"good", "", with(func(*Secret) {})},
		{"with a template", "", with(func(s *Secret) { s.Value = "Bearer {{file}}" })},
		{"of a program", "", with(func(s *Secret) { s.File, s.Command = "", []string{"/bin/pass", "show"} })},
		{"of a credential", "", with(func(s *Secret) { s.File, s.Credential = "", "api.key" })},
		{"of a user", "", with(func(s *Secret) { s.User, s.Header = "u", "authorization" })},
		{"without a host", "host is missing", with(func(s *Secret) { s.Host = "" })},
		{"for many hosts", "belongs to one host", with(func(s *Secret) { s.Host = "*.test" })},
		{"without a source", "want one source", with(func(s *Secret) { s.File = "" })},
		{"with two sources", "want one source", with(func(s *Secret) { s.Credential = "x" })},
		{"of a relative file", "is relative", with(func(s *Secret) { s.File = "token" })},
		{"of a relative program", "is relative", with(func(s *Secret) { s.File, s.Command = "", []string{"pass"} })},
		{"of a credential elsewhere", "no name of", with(func(s *Secret) { s.File, s.Credential = "", "../x" })},
		{"in the configuration", "no place in the configuration", with(func(s *Secret) { s.Value = "Bearer abc" })},
		{"of another source", "must have {{file}} once", with(func(s *Secret) { s.Value = "Bearer {{command}}" })},
		{"twice in the value", "once", with(func(s *Secret) { s.Value = "{{file}}{{file}}" })},
		{"with a line break around", "line break", with(func(s *Secret) { s.Value = "a\r\nX: {{file}}" })},
		{"in no header", "not the name of a header", with(func(s *Secret) { s.Header = "X: Y" })},
		{"in Host", "can hold no secret", with(func(s *Secret) { s.Header = "host" })},
		{"in Transfer-Encoding", "can hold no secret", with(func(s *Secret) { s.Header = "transfer-encoding" })},
		{"of a user in another header", "leave out", with(func(s *Secret) { s.User, s.Header = "u", "X-Key" })},
		{"of a user with a colon", "colon", with(func(s *Secret) { s.User = "a:b" })},
		{"two for a header", "two secrets", Network{
			Intercept: []string{"api.test"}, Secrets: []Secret{ok, {Host: "api.test:443", Header: "authorization", File: "/x"}},
		}},
		{"two for two headers and two ports", "", Network{
			Intercept: []string{"api.test"},
			Secrets: []Secret{
				ok, {Host: "api.test", Header: "X-Key", File: "/x"}, {Host: "api.test:8443", File: "/x"},
			},
		}},
		{"an address", "only a name", Network{Intercept: []string{"10.0.0.1"}}},
		{"the sandbox", "only a name", Network{Intercept: []string{"localhost"}}},
		{"port 80", "read anyway", Network{Intercept: []string{"a.test:80"}}},
		{"everything", "write a host", Network{Intercept: []string{"*"}}},
		{"a proxy", "", Network{UpstreamProxy: "http://proxy.test:3128"}},
		{"a proxy with a password", "no place in the configuration", Network{UpstreamProxy: "http://u:pw@proxy.test"}},
		{"a proxy by TLS", "not supported", Network{UpstreamProxy: "https://proxy.test"}},
		{"a proxy with a path", "no path", Network{UpstreamProxy: "http://proxy.test/x"}},
		{"a proxy without a host", "network.upstreamProxy", Network{UpstreamProxy: "http://"}},
		{"a header for the proxy", "leave out header", Network{
			UpstreamProxy: "http://proxy.test:3128",
			Secrets:       []Secret{{Host: "proxy.test:3128", File: "/x", Header: "X-Key"}},
		}},
		{"a header for another host than the proxy", "", Network{
			UpstreamProxy: "http://proxy.test:3128",
			Secrets:       []Secret{{Host: "api.test:3128", File: "/x", Header: "X-Key"}},
		}},
		{"absolute authorities", "", Network{CAFile: "/etc/ca.pem"}},
		{"relative authorities", "is relative", Network{CAFile: "ca.pem"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.n.validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := ParseSettings([]byte(`{"network": {"secrets": [{"host": "a.test", "token": "x"}]}}`)); err == nil {
		t.Error("an unknown key is taken")
	}
}

func TestInterceptedHosts(t *testing.T) {
	n := Network{
		Intercept: []string{"api.test", "*.pkg.test", "db.test:8443"},
		Secrets: []Secret{
			{Host: "api.test", File: "/a"}, {Host: "DB.test:8443", File: "/b"}, {Host: "none.test", File: "/c"},
		},
	}
	for _, tt := range []struct {
		host    string
		port    int
		yes     bool
		secrets int
	}{
		{"api.test", 443, true, 1},
		{"api.test", 80, false, 0},
		{"api.test", 8443, false, 0},
		{"x.api.test", 443, false, 0},
		{"a.b.pkg.test", 443, true, 0},
		{"pkg.test", 443, false, 0},
		{"db.test", 8443, true, 1},
		{"db.test", 443, false, 0},
	} {
		if got := n.Intercepts(tt.host, tt.port); got != tt.yes || len(n.SecretsFor(tt.host, tt.port)) != tt.secrets {
			t.Errorf("%s:%d: %t, %v", tt.host, tt.port, got, n.SecretsFor(tt.host, tt.port))
		}
	}
	if got := n.Unused(); len(got) != 1 || got[0] != 2 {
		t.Errorf("unused: %v", got)
	}
	n.UpstreamProxy = "http://none.test:443"
	if got := n.Unused(); len(got) != 0 {
		t.Errorf("with a proxy, unused: %v", got)
	}
	if w := strings.Join(n.warnings(), "\n"); !strings.Contains(w, "api.test may not be reached") {
		t.Errorf("warned %q", w)
	}
	basic := Secret{User: "git"}.Fill("password")
	if basic != "Basic Z2l0OnBhc3N3b3Jk" {
		t.Errorf("got %s", basic)
	}
}
