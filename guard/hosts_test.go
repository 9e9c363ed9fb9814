package guard

import (
	"fmt"
	"strings"
	"testing"
)

// TestHostsOfACommand judges the hosts that a line names against the list.
func TestHostsOfACommand(t *testing.T) {
	s := Settings{Network: Network{AllowedDomains: []string{"api.example.com"}}}
	for cmd, want := range map[string]bool{
		"curl https://api.example.com/x":                   true,
		"curl https://evil.test/x":                         false,
		"curl https://api.example.com@evil.test/":          false,
		"curl -x evil.test:80 https://api.example.com/":    false,
		"wget -O- http://api.example.com http://evil.test": false,
		"git clone https://evil.test/r.git":                false,
		"ssh evil.test true":                               false,
		"echo https://evil.test/":                          true,
	} {
		if got := commandAllowed(cmd, s); got != want {
			t.Errorf("%q: %v, want %v (%v)", cmd, got, want, JudgeCommand(cmd, "", "", s).Reasons)
		}
	}
	if !commandAllowed("curl https://evil.test/", Settings{}) {
		t.Error("settings without a list of domains refuse a host")
	}
}

// An address in a list of hosts opens nothing, so what runs programs refuses it. What only
// judges takes it as it is.
func TestAnAddressOpensNothing(t *testing.T) {
	listed := func(d ...string) Settings { return Settings{Network: Network{AllowedDomains: d}} }
	for _, d := range []string{"10.0.0.1", "10.0.0.1:443", "[::2]:80", "2001:db8::1"} {
		if err := listed("a.org", d).CheckCage(); err == nil || !strings.Contains(err.Error(), "network.hosts") {
			t.Errorf("%s for a cage: %v", d, err)
		}
		if _, _, err := listed(d).Normalise(); err != nil {
			t.Errorf("%s for a judgement: %v", d, err)
		}
	}
	if err := listed("a.org", "*.b.org:22").CheckCage(); err != nil {
		t.Errorf("names for a cage: %v", err)
	}
}

// TestX30_AConnectionIsNoFile: bash connects where a redirection names /dev/tcp or
// /dev/udp, and no list of paths that is short of "/dev" would hold that.
func TestX30_AConnectionIsNoFile(t *testing.T) {
	for _, cmd := range []string{
		"cat < /dev/tcp/10.0.0.1/80", "echo x > /dev/udp/10.0.0.1/53", "exec 3<>/dev/tcp/10.0.0.1/80",
	} {
		for _, s := range []Settings{
			{DeniedPaths: []string{"/etc"}},
			{DeniedPaths: []string{"/etc"}, AllowedReadPaths: []string{"/"}, AllowedWritePaths: []string{"/"}},
		} {
			j := JudgeCommand(cmd, "/w", "/h", s)
			if j.Verdict != Deny || len(j.Reasons) == 0 || j.Reasons[0].Code != "path_device" {
				t.Errorf("%s under %+v: %v %+v", cmd, s, j.Verdict, j.Reasons)
			}
		}
	}
}

// A name behind /dev/tcp is judged as what any program connects to.
func TestAConnectionOfBashIsJudgedAsAnyOther(t *testing.T) {
	paths := Settings{DeniedPaths: []string{"/etc"}}
	ask, deny := paths, paths
	ask.Network = Network{AllowedDomains: []string{"a.org", "db.org:5432"}, Unlisted: UnlistedAsk}
	deny.Network = Network{AllowedDomains: []string{"a.org"}, Unlisted: UnlistedDeny}
	for _, tt := range []struct {
		cmd  string
		s    Settings
		want string // the code, and whether only our own cage makes it pass
	}{
		{"exec 3<>/dev/tcp/a.org/80", ask, ""},
		{"exec 3<>/dev/tcp/db.org/5432", ask, ""},
		{"exec 3<>/dev/tcp/db.org/80", ask, "host_denied true"},
		{"exec 3<>/dev/tcp/b.org/80", ask, "host_denied true"},
		{"exec 3<>/dev/tcp/b.org/80", deny, "host_denied false"},
		{"exec 3<>/dev/tcp/a.org/22", deny, "host_denied false"},
		{"exec 3<>/dev/tcp/10.0.0.1/80", ask, "path_device false"},
		{"exec 3<>/dev/tcp/127.0.0.1/5432", deny, ""},
		{"exec 3<>/dev/tcp/localhost/5432", deny, ""},
		{"exec 3<>/dev/tcp/::1/5432", deny, ""},
		{"exec 3<>/dev/tcp/localhost.evil.org/5432", deny, "host_denied false"},
		{"exec 3<>/dev/udp/127.0.0.1/53", deny, "path_device false"},
		{"exec 3<>/dev/tcp/a.org/http", ask, "path_device false"},
		{"exec 3<>/dev/udp/a.org/53", ask, "path_device false"},
		{"exec 3<>/dev/tcp/a.org/80", paths, "host_denied false"},
	} {
		got := ""
		if j := JudgeCommand(tt.cmd, "/w", "/h", tt.s); len(j.Reasons) > 0 {
			got = fmt.Sprint(j.Reasons[0].Code, " ", j.Reasons[0].Ours)
		}
		if got != tt.want {
			t.Errorf("%s with %+v: got %q, want %q", tt.cmd, tt.s.Network, got, tt.want)
		}
	}
}

func hostAllowed(host string, domains []string) bool {
	v, _ := Network{AllowedDomains: domains}.Connect(host, 443)
	return v == Allow
}

func TestX13_Domains(t *testing.T) {
	for _, tt := range []struct {
		host    string
		domains []string
		want    bool
	}{
		{"api.example.com", []string{"*.example.com"}, true},
		{"API.Example.COM", []string{"api.example.com"}, true},
		{"example.com", []string{"*.example.com"}, false},
		{"evilexample.com", []string{"*.example.com"}, false},
		{"example.com.evil.test", []string{"example.com"}, false},
		{"example.com.", []string{"example.com"}, true},
		{"bücher.example", []string{"xn--bcher-kva.example"}, true},
		{"10.0.0.1", []string{"*.0.0.1"}, false},
		{"10.0.0.1", []string{"10.0.0.1"}, true},
		{"::ffff:10.0.0.1", []string{"10.0.0.1"}, true},
		{"127.0.0.1", []string{"example.com"}, false},
		{"", []string{"example.com"}, false},
		{"a b", []string{"*.b"}, false},
		{"x", nil, false},
	} {
		if got := hostAllowed(tt.host, tt.domains); got != tt.want {
			t.Errorf("%q with %v: %v, want %v", tt.host, tt.domains, got, tt.want)
		}
	}
}
