package guard

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestAnAddressIsReadInOneWay, or refused.
func TestAnAddressIsReadInOneWay(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"https://A.Example/x?q=1#frag", "https://a.example/x?q=1"},
		{"http://a.example.:8080/", "http://a.example:8080/"},
		{"https://[2001:DB8::1]:8443/", "https://[2001:db8::1]:8443/"},
		{"https://[2001:db8::1]/", "https://[2001:db8::1]/"},
		{"https://a.example:65535/", "https://a.example:65535/"},
		{"ftp://a.example/", "reads in the same way"},
		{"//a.example/", "reads in the same way"},
		{"https://user@a.example/", "reads in the same way"},
		{"https://bücher.example/", "reads in the same way"},
		{"https://a.example/a b", "reads in the same way"},
		{"https://a.example/\x7f", "reads in the same way"},
		{`https://a.example\@b.example/`, "reads in the same way"},
		{`https://a.example/x\y`, "reads in the same way"},
		{"https:///x", "reads in the same way"},
		{"https://a.example/%zz", "reads in the same way"},
		{"https://127.1/", "is not a name"},
		{"https://a.0x7f/", "is not a name"},
		{"https://a.example:0/", "has no port that can be"},
		{"https://a.example:65536/", "has no port that can be"},
	} {
		u, err := ParseURL(tt.in)
		if refused := strings.Contains(tt.want, " "); refused != (err != nil) ||
			refused && !strings.HasSuffix(err.Error(), tt.want) || !refused && u.String() != tt.want {
			t.Errorf("%q: got %v, %v, want %q", tt.in, u, err, tt.want)
		}
	}
}

// TestWhoAnswersSearches: each provider has its address, and an entry of secrets for it is used.
func TestWhoAnswersSearches(t *testing.T) {
	for _, tt := range []struct {
		s    Search
		want string
	}{
		{Search{Provider: "brave"}, "https://api.search.brave.com/res/v1/web/search"},
		{Search{Provider: "brave", URL: "https://brave.test/q"}, "https://brave.test/q"},
		{Search{Provider: "searxng", URL: "https://s.test/base"}, "https://s.test/base/search"},
		{Search{Provider: "searxng", URL: "https://s.test/base/"}, "https://s.test/base/search"},
		{Search{Provider: "searxng", URL: "https://s.test"}, "https://s.test/search"},
		{Search{Provider: "searxng", URL: "https://s.test/"}, "https://s.test/search"},
		{Search{Provider: "searxng"}, "network.search: provider searxng has no address of its own; write its url"},
		{Search{Provider: "other"}, `network.search: provider "other" is not brave or searxng`},
		{Search{Provider: "searxng", URL: "s.test"}, "network.search: url: "},
		{Search{Provider: "searxng", URL: "https://s.test/?q=x"}, "has a question in it"},
	} {
		got := ""
		if err := (Network{Search: &tt.s}).validate(); err != nil {
			got = err.Error()
		} else if u, err := tt.s.Address(); err == nil {
			got = u.Scheme + "://" + u.Host + u.RequestURI() // as it is sent
		}
		if !strings.Contains(got, tt.want) || strings.HasPrefix(tt.want, "https:") && got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.s, got, tt.want)
		}
	}
	secret := []Secret{{Host: "s.test", File: "/x"}, {Host: "s.test:8443", File: "/x"}}
	for _, tt := range []struct {
		s      *Search
		unused []int
	}{
		{nil, []int{0, 1}},
		{&Search{Provider: "searxng", URL: "https://s.test"}, []int{1}},
		{&Search{Provider: "searxng", URL: "https://s.test:8443"}, []int{0}},
		{&Search{Provider: "searxng", URL: "http://s.test"}, []int{0, 1}},
		{&Search{Provider: "none"}, []int{0, 1}},
	} {
		if got := (Network{Secrets: secret, Search: tt.s}).Unused(); !slices.Equal(got, tt.unused) {
			t.Errorf("%+v: unused are %v, want %v", tt.s, got, tt.unused)
		}
		s := DefaultSettings("/w", "/home/dev", nil)
		s.Network = Network{Secrets: secret, Search: tt.s, AllowedDomains: []string{"s.test"}}
		if got, _, err := s.Normalise(); tt.s != nil && tt.s.Provider != "none" && (err != nil || got.Network.Intercept != nil) {
			t.Errorf("%+v: programs get a secret of WebSearch: %v, %v", tt.s, got.Network.Intercept, err)
		}
	}
}

func TestAConnectionIsWrittenAsInTheList(t *testing.T) {
	for _, tt := range []struct {
		host string
		port int
		want string
	}{
		{"a.test", 443, "a.test"}, {"a.test", 80, "a.test"}, {"a.test", 22, "a.test:22"}, {"::1", 22, "[::1]:22"},
	} {
		if got := Endpoint(tt.host, tt.port); got != tt.want {
			t.Errorf("%s %d: got %s, want %s", tt.host, tt.port, got, tt.want)
		}
	}
}

// TestTheSecretOfAProxyIsForItAlone, by host and port.
func TestTheSecretOfAProxyIsForItAlone(t *testing.T) {
	for _, tt := range []struct {
		proxy, host string
		yes         bool
	}{
		{"http://proxy.test:3128", "proxy.test:3128", true},
		{"http://proxy.test:3128/", "Proxy.test:3128", true},
		{"http://proxy.test:443", "proxy.test", true},
		{"http://proxy.test:3128", "proxy.test", false},
		{"http://proxy.test:3128", "proxy.test:3129", false},
		{"http://proxy.test:3128", "other.test:3128", false},
		{"", "proxy.test:3128", false},
	} {
		s := Secret{Host: tt.host, File: "/x"}
		got, ok := Network{UpstreamProxy: tt.proxy, Secrets: []Secret{s}}.ProxySecret()
		if ok != tt.yes || ok && !reflect.DeepEqual(got, s) {
			t.Errorf("%q and %q: got %+v, %v", tt.proxy, tt.host, got, ok)
		}
	}
	for _, proxy := range []string{
		"http://p.test?x", "http://p.test#x", "http:p.test", "http://p.test:0", "http://p.test:65536", "http://p.test:x",
	} {
		if err := (Network{UpstreamProxy: proxy}).validate(); err == nil {
			t.Errorf("%s is taken", proxy)
		}
	}
	if host, port, ok := (Network{UpstreamProxy: "http://p.test"}).Proxy(); host != "p.test" || port != 80 || !ok {
		t.Errorf("without a port: %s %d %v", host, port, ok)
	}
}

// TestSecretsAreFilledInAndWithheld: what a header gets, what an answer may repeat of it, and what
// those are shown who may not know where it is.
func TestSecretsAreFilledInAndWithheld(t *testing.T) {
	for _, tt := range []struct {
		s     Secret
		want  string
		forms []string
	}{
		{Secret{File: "/x"}, "key", []string{"key"}},
		{Secret{File: "/x", Value: "Bearer {{file}}"}, "Bearer key", []string{"key"}},
		{Secret{Credential: "x", Value: "token {{credential}}"}, "token key", []string{"key"}},
		{Secret{Command: []string{"/x"}, Value: "{{command}}."}, "key.", []string{"key"}},
		{Secret{File: "/x", User: "u"}, "Basic dTprZXk=", []string{"key", "u:key", "dTprZXk="}},
	} {
		if got := tt.s.Fill("key"); got != tt.want {
			t.Errorf("%+v: the header is %q, want %q", tt.s, got, tt.want)
		}
		if got := tt.s.Forms("key"); !slices.Equal(got, tt.forms) {
			t.Errorf("%+v: the forms are %q, want %q", tt.s, got, tt.forms)
		}
	}
	n := Network{
		Intercept: []string{"a.test", "*.b.test", "A.test:8443"},
		Secrets:   []Secret{{Host: "a.test", Header: "X-Key", File: "/x", Value: "Bearer {{file}}"}},
	}
	want := []Secret{{Host: "a.test", Header: "X-Key", Credential: "withheld"}}
	if got := n.Withheld().Secrets; !reflect.DeepEqual(got, want) {
		t.Errorf("others see %+v, want %+v", got, want)
	}
	if n.Secrets[0].File != "/x" {
		t.Error("the settings themselves lost where the secret is")
	}
	if got, want := n.Intercepted(), []string{"a.test", "b.test"}; !slices.Equal(got, want) {
		t.Errorf("intercepted are %q, want %q", got, want)
	}
	for _, s := range []Secret{
		{Host: "a.test", Credential: ".."},
		{Host: "a.test", Credential: "a/b"},
		{Host: "a b", File: "/x"},
		{Host: "a.test", File: "/x", User: "u", Value: "{{file}}"},
		{Host: "a.test", File: "/x", Value: "{{file}}{{x}}"},
	} {
		if err := s.validate(); err == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}

// TestWarningsNameWhatHasNoEffect.
func TestWarningsNameWhatHasNoEffect(t *testing.T) {
	for _, tt := range []struct {
		s    Settings
		want string
	}{
		{Settings{AllowNestedSandbox: true}, "the cage refuses them namespaces"},
		{Settings{EnableWeakerNestedSandbox: true}, "enableWeakerNestedSandbox changes nothing"},
		{Settings{AllowedCommands: []string{"a"}, DeniedCommands: []string{"b"}}, "deniedCommands is ignored"},
		{Settings{AllowedCommands: []string{"a"}}, ""},
		{Settings{DeniedCommands: []string{"b"}}, ""},
		{Settings{Network: Network{AllowedDomains: []string{"a.test"}, DeniedDomains: []string{"b.test"}}}, ""},
		{Settings{Network: Network{Intercept: []string{"*.a.test"}}}, ""},
		{Settings{Network: Network{Intercept: []string{"a.test"}}}, "list it in network.allowedDomains"},
		{Settings{Network: Network{Intercept: []string{"a.test"}, AllowedDomains: []string{"a.test"}}}, ""},
		{
			Settings{Network: Network{Intercept: []string{"a.test:8443"}, AllowedDomains: []string{"a.test"}}},
			"list it in",
		},
	} {
		got := strings.Join(tt.s.warnings(), "\n")
		if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%+v: warned %q, want %q", tt.s, got, tt.want)
		}
	}
}

// TestVariablesAndLayersAreChecked: a name that no program could be given, and a layer that is none.
func TestVariablesAndLayersAreChecked(t *testing.T) {
	for _, tt := range []struct {
		s    Settings
		want string
	}{
		{Settings{Env: map[string]string{"A": "="}, Require: Layers}, ""},
		{Settings{Env: map[string]string{"": "x"}}, "env: "},
		{Settings{Env: map[string]string{"A=B": "x"}}, "env: "},
		{Settings{Env: map[string]string{"A\x00": "x"}}, "env: "},
		{Settings{Env: map[string]string{"A": "x\x00"}}, "env: "},
		{Settings{Require: []string{"chroot"}}, `require: "chroot" is no layer: want ` + strings.Join(Layers, ", ")},
		{Settings{DeniedCommands: []string{""}}, "is not the name of a program"},
	} {
		_, _, err := tt.s.Normalise()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.s, err, tt.want)
		}
	}
}

// TestDefaultsNoneForgetsTheDeniedPaths, also where the document gives none of its own.
func TestDefaultsNoneForgetsTheDeniedPaths(t *testing.T) {
	s := Settings{DeniedPaths: []string{"/a"}}
	for _, tt := range []struct {
		doc   string
		want  []string
		fails string
	}{
		{`{}`, []string{"/a"}, ""},
		{`{"deniedPaths":["/b","/a"]}`, []string{"/a", "/b"}, ""},
		{`{"defaults":"none"}`, nil, ""},
		{`{"defaults":"none","deniedPaths":["/b"]}`, []string{"/b"}, ""},
		{`{"defaults":"all"}`, nil, `defaults: "all": the only value is "none"`},
		{`{"defaults":true}`, nil, "the only value is"},
		{`{"deniedPaths":"` + strings.Repeat("x", 90) + `"}`, nil, "deniedPaths"},
	} {
		got, err := s.Merge([]byte(tt.doc))
		if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s: %v, want %q", tt.doc, err, tt.fails)
		}
		if !slices.Equal(got.DeniedPaths, tt.want) {
			t.Errorf("%s: denied are %q, want %q", tt.doc, got.DeniedPaths, tt.want)
		}
	}
}

// TestWhatAPolicyDemandsIsNeverLooser: nothing is reached, nothing written, and the shorter time holds.
func TestWhatAPolicyDemandsIsNeverLooser(t *testing.T) {
	s := Settings{Network: Network{AllowedDomains: []string{"a.test"}, Unlisted: UnlistedAsk}}
	for _, tt := range []struct{ have, want, got int }{{0, 0, 0}, {0, 5, 5}, {9, 5, 5}, {3, 5, 3}, {3, 0, 3}} {
		s.Limits.WallSeconds = tt.have
		o := s.Tighten(Obligations{NoNetwork: true, WallSeconds: tt.want})
		if o.Limits.WallSeconds != tt.got {
			t.Errorf("%d and %d: %d seconds, want %d", tt.have, tt.want, o.Limits.WallSeconds, tt.got)
		}
		if o.Network.Reaches() || o.Network.AllowedDomains == nil || o.Network.Unlisted != UnlistedDeny {
			t.Errorf("the network is %+v", o.Network)
		}
	}
}

// TestWhyAHostIsRefused: denied, not listed, or a name without a dot, about which nobody is asked.
func TestWhyAHostIsRefused(t *testing.T) {
	s := Settings{
		Network: Network{
			AllowedDomains: []string{"a.test"},
			DeniedDomains:  []string{"bad.test"},
			Unlisted:       UnlistedAsk,
		},
	}
	const asked, listed = "network.unlisted: ask", "network.allowedDomains"
	for _, tt := range []struct{ host, message, hint, rule string }{
		{"bad.test", "host 'bad.test' is in the denied domains", noWayOut, "network.deniedDomains: bad.test"},
		{"other.test", "host 'other.test' is not in the allowed domains", noWayOut, asked},
		{
			"printer", "host 'printer' is not in the allowed domains",
			"a name without a dot is mistyped, or a machine", listed,
		},
		{"10.0.0.1", "host '10.0.0.1' is not in the allowed domains", noWayOut, listed},
	} {
		r := checkHost(tt.host, s)
		if r == nil || r.Message != tt.message || !strings.HasPrefix(r.Hint, tt.hint) || r.Rule != tt.rule {
			t.Errorf("%s: %+v, want %q, %q and %q", tt.host, r, tt.message, tt.hint, tt.rule)
		}
	}
	s.Network.Unlisted = UnlistedDeny
	if r := checkHost("printer", s); r == nil || r.Hint != noWayOut {
		t.Errorf("where nobody is asked: %+v", r)
	}
	s.DeniedPaths = []string{"/etc"} // without paths of any kind no file is judged
	j := JudgeCommand("exec 3<>/dev/tcp/b.test/81", "/w", "/h", s)
	if len(j.Reasons) == 0 || j.Reasons[0].Message != "host 'b.test' is not in the allowed domains with port 81" {
		t.Errorf("a connection of bash: %+v", j.Reasons)
	}
}

// TestTheNarrowerHostIsMet: of two lists, name by name and port by port.
func TestTheNarrowerHostIsMet(t *testing.T) {
	for _, tt := range []struct{ a, b, want string }{
		{"a.test", "a.test", "a.test"},
		{"*.a.test", "x.a.test", "x.a.test"},
		{"*.a.test", "*.x.a.test", "*.x.a.test"},
		{"*.a.test", "a.test", ""},
		{"a.test", "b.test", ""},
		{"a.test", "a.test:443", "a.test:443"},
		{"a.test", "a.test:22", ""},
		{"a.test:22", "a.test:23", ""},
		{"*.a.test:80", "x.a.test", "x.a.test:80"},
		{"*.a.test:22", "x.a.test", ""},
		{"[::2]:22", "[::2]:22", "[::2]:22"},
		{"a b", "a b", ""},
		{"a.test", "a b", ""},
	} {
		for _, pair := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			if got := meetEndpoints(pair[0], pair[1]); got != tt.want {
				t.Errorf("%v: got %q, want %q", pair, got, tt.want)
			}
		}
	}
}
