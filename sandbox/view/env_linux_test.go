package view

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

func TestWithEnv(t *testing.T) {
	env := []string{"A=1", "B=2", "AB=3"}
	for _, tt := range []struct{ more, want []string }{
		{nil, []string{"A=1", "B=2", "AB=3"}},
		{[]string{"A=9", "C=4"}, []string{"B=2", "AB=3", "A=9", "C=4"}},
		{[]string{"B=", "B=7"}, []string{"A=1", "AB=3", "B=7"}},
		{[]string{"B="}, []string{"A=1", "AB=3", "B="}},
		{[]string{"=x", "nothing"}, []string{"A=1", "B=2", "AB=3"}},
	} {
		if got := WithEnv(env, tt.more); !slices.Equal(got, tt.want) {
			t.Errorf("with %q: %q, want %q", tt.more, got, tt.want)
		}
	}
	if !slices.Equal(env, []string{"A=1", "B=2", "AB=3"}) {
		t.Errorf("changed to %q", env)
	}
}

// TestX40_PATHHoldsNoDirectoryOfPrograms: what a program puts into a directory that it may
// write is not what the next call runs by a bare name.
func TestX40_PATHHoldsNoDirectoryOfPrograms(t *testing.T) {
	base := physicalTemp(t)
	for _, dir := range []string{"/tools", "/ws/bin", "/secret"} {
		if err := os.MkdirAll(base+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := guard.Settings{AllowedWritePaths: []string{base + "/ws"}, DeniedPaths: []string{base + "/secret"}}
	given := []string{
		base + "/ws/bin", base + "/ws/../ws/bin", base + "/ws", base + "/secret", base + "/absent", "bin", ".", "",
		base + "/tools", base + "/tools", "/usr/bin",
	}
	got := environment([]string{"PATH=" + strings.Join(given, ":")}, "", s)
	if want := "PATH=" + base + "/tools:/usr/bin"; !slices.Contains(got, want) {
		t.Errorf("no %q in %q", want, got)
	}
}

// TestValuesOfEnvAreLiteral: those of the settings hold as they are, also in place of those of the caller.
func TestValuesOfEnvAreLiteral(t *testing.T) {
	own := []string{"LC_ALL=C.UTF-8", "TZ=UTC", "TOKEN=secret"}
	env := environment(own, "/home/u", guard.Settings{Env: map[string]string{"A": "$HOME ${TZ} $(id)", "TZ": "Europe/Berlin"}})
	for _, want := range []string{"A=$HOME ${TZ} $(id)", "TZ=Europe/Berlin", "LC_ALL=C.UTF-8", "HOME=/home/u"} {
		if !slices.Contains(env, want) {
			t.Errorf("%q lacks %q", env, want)
		}
	}
	if slices.Contains(env, "TOKEN=secret") {
		t.Errorf("%q has the caller's secret", env)
	}
}

// TestToolsWithAuthoritiesOfTheirOwnFindThoseOfTheSession, where hosts are intercepted.
func TestToolsWithAuthoritiesOfTheirOwnFindThoseOfTheSession(t *testing.T) {
	intercepts := guard.Settings{Network: guard.Network{Intercept: []string{"api.test"}}}
	plain, trusting := environment(nil, "", guard.Settings{}), environment(nil, "", intercepts)
	for _, name := range []string{
		"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT",
		"CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
	} {
		if want := name + "=" + wire.TrustFile; !slices.Contains(trusting, want) || slices.Contains(plain, want) {
			t.Errorf("%s: with intercept %q, without %q", name, trusting, plain)
		}
	}
}

// What exists only inside, or is another thing there, is told from the private files that file tools see.
func TestWhatExistsOnlyInside(t *testing.T) {
	for path, want := range map[string]string{
		"/proc/1/environ": "/proc", "/sys": "/sys", "/dev/shm/x": "/dev", "/run/go-build/x": "/run/go-build",
		"/run/cargo/config.toml": "/run/cargo", "/run/cache/npm/x": "", "/tmp/x": "", "/process": "", "/run": "",
	} {
		if got := InsideOnly(path); got != want {
			t.Errorf("%s lies in %q, want %q", path, got, want)
		}
	}
}
