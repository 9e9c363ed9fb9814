package guard

import (
	"reflect"
	"strings"
	"testing"
)

func TestTightenNeverLoosens(t *testing.T) {
	s := Settings{
		AllowedWritePaths: []string{"/w"}, Network: Network{AllowedDomains: []string{"a.b"}},
		Limits: Limits{WallSeconds: 10},
	}
	got := s.Tighten(Obligations{NoNetwork: true, ReadOnly: true, WallSeconds: 20})
	if pathAllowed("/w/x", Write, got) || hostAllowed("a.b", got.Network.AllowedDomains) ||
		got.Limits.WallSeconds != 10 {
		t.Errorf("%+v", got)
	}
	if open := (Settings{}).Tighten(Obligations{ReadOnly: true}); pathAllowed("/w/x", Write, open) {
		t.Error("read-only over an empty list leaves writes open")
	}
}

// TestMergeLeavesWhatItIsMergedInto: many sessions start from the settings of one workspace.
func TestMergeLeavesWhatItIsMergedInto(t *testing.T) {
	base := Settings{Env: map[string]string{"A": "1"}}
	base.Network.Hosts = map[string]string{"a.example": "192.0.2.1"}
	got, err := base.Merge([]byte(`{"env": {"B": "2"}, "network": {"hosts": {"b.example": "192.0.2.2"}}}`))
	if err != nil || got.Env["B"] != "2" || len(got.Network.Hosts) == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, ok := base.Network.Hosts["b.example"]; ok || base.Env["B"] != "" {
		t.Errorf("settings of a session are in those of its workspace: %v %v", base.Env, base.Network.Hosts)
	}
}

func TestX11_Merge(t *testing.T) {
	base := Settings{
		AllowedWritePaths: []string{"/w"}, DeniedPaths: []string{"/s"}, AllowedCommands: []string{"git"},
		Limits: Limits{WallSeconds: 5, CPUSeconds: 6},
	}
	for _, tt := range []struct {
		name, doc string
		want      func(*Settings)
		fails     string
	}{
		{"nothing", "", func(*Settings) {}, ""},
		{
			"a list replaces", `{"allowedWritePaths":["/x"]}`,
			func(s *Settings) { s.AllowedWritePaths = []string{"/x"} },
			"",
		},
		{"denied paths add", "deniedPaths: [/t]", func(s *Settings) { s.DeniedPaths = []string{"/s", "/t"} }, ""},
		{"no defaults", "defaults: none\ndeniedPaths: [/t]", func(s *Settings) { s.DeniedPaths = []string{"/t"} }, ""},
		{"null commands", `{"allowedCommands":null}`, func(s *Settings) { s.AllowedCommands = nil }, ""},
		{"no commands", `{"allowedCommands":[]}`, func(s *Settings) { s.AllowedCommands = []string{} }, ""},
		{"limits by key", "limits: {wallSeconds: 9}", func(s *Settings) { s.Limits.WallSeconds = 9 }, ""},
		{
			"a JSON document with tabs", "{\n\t\"allowNestedSandbox\": true\n}",
			func(s *Settings) { s.AllowNestedSandbox = true }, "",
		},
		{"unknown key", `{"allowedPaths":[]}`, nil, "unknown key"},
		{"wrong case", `{"AllowedCommands":[]}`, nil, `write "allowedCommands"`},
		{"X-11: managed domains", `{"network":{"allowManagedDomainsOnly":true}}`, nil, "not supported"},
		{"X-11: sockets", `{"network":{"allowUnixSockets":[]}}`, nil, "not supported"},
		{"X-11: all sockets", `{"network":{"allowAllUnixSockets":true}}`, nil, "not supported"},
		{"X-11: proxy", `{"network":{"httpProxyPort":1}}`, nil, "not supported"},
		{"X-11: SOCKS proxy", `{"network":{"socksProxyPort":1}}`, nil, "not supported"},
		{"X-11: violations", `{"ignoreViolations":{}}`, nil, "not supported"},
		{"X-11: ripgrep", `{"ripgrep":{"command":"rg"}}`, nil, "not supported"},
		{
			"X-06 and X-08: taken as written",
			`{"allowNestedSandbox":true,"enableWeakerNestedSandbox":true,"allowUnsandboxedCommands":true}`,
			func(s *Settings) {
				s.AllowNestedSandbox, s.EnableWeakerNestedSandbox, s.AllowUnsandboxedCommands = true, true, true
			}, "",
		},
		{
			"local binding: taken as written", `{"network":{"allowLocalBinding":true}}`,
			func(s *Settings) { s.Network.AllowLocalBinding = true }, "",
		},
		{"twice in JSON", `{"deniedPaths":[],"deniedPaths":["/x"]}`, nil, "twice"},
		{"twice in YAML", "deniedPaths: []\ndeniedPaths: []", nil, "already defined"},
		{"wrong type", `{"limits":{"wallSeconds":"x"}}`, nil, "wallSeconds"},
		{"not an object", `[1]`, nil, "not an object"},
		{"a long list is no object", `[` + strings.Repeat("1,", 99) + `1]`, nil, "1,1… is not an object"},
		{"what a switch wants", `{"allowNestedSandbox":"yes"}`, nil, "want true or false"},
		{"what a list wants", `{"deniedPaths":{}}`, nil, "want a list of texts"},
		{"what the environment wants", `{"env":[]}`, nil, "want names with texts"},
		{"what a search wants", `{"network":{"search":7}}`, nil, "want a provider, and perhaps its url"},
		{
			"a provider twice", `{"network":{"search":{"provider":"brave","Provider":"searxng"}}}`, nil,
			"want a provider",
		},
		{
			"a host twice", `{"network":{"secrets":[{"host":"a.test","HOST":"b.test","file":"/k"}]}}`, nil,
			"want a list of secrets",
		},
		{"what a number wants", `{"limits":{"processes":"x"}}`, nil, "want a whole number"},
		{"what a number of bytes wants", `{"limits":{"memoryBytes":"x"}}`, nil, "want a whole number of bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := base.Merge([]byte(tt.doc))
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("error %v, want %q", err, tt.fails)
				}
				return
			}
			want := base
			tt.want(&want)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}
