package sandbox

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
)

func TestSettingsWithoutEffectOnAHostAreNamed(t *testing.T) {
	full := Report{Isolation: "namespaces", Layers: []string{"userns", "landlock:7"}, Landlock: 7}
	old := Report{Isolation: "namespaces", Landlock: 3}
	second := Report{Isolation: "landlock", Landlock: 7, Missing: []string{"userns: switched off"}}
	bound := Report{Isolation: "namespaces", Landlock: 7, Limits: map[string]string{"processes": "nothing", "wallSeconds": "clock"}}
	listens := guard.Settings{Network: guard.Network{AllowLocalBinding: true}}
	for _, tt := range []struct {
		name string
		r    Report
		s    guard.Settings
		want string
	}{
		{"everything holds", full, guard.Settings{Require: []string{"userns", "landlock"}}, ""},
		{"listening is refused", full, guard.Settings{}, ""},
		{"listening cannot be refused", old, guard.Settings{}, "network.allowLocalBinding: false has no effect on this host: it needs Landlock 4, and this is 3"},
		{"listening is allowed", old, listens, ""},
		{"nothing can listen", second, listens, "network.allowLocalBinding has no effect on this host: without network namespaces"},
		{
			"nothing connects", second,
			guard.Settings{Network: guard.Network{AllowedDomains: []string{"a.example"}}},
			"network has no effect on this host: without network namespaces",
		},
		{"nothing listens", second, guard.Settings{}, ""},
		{"a layer is missing", second, guard.Settings{Require: []string{"userns"}}, `require: nothing runs on this host: the sandbox layer "userns" is required and this host does not give it: userns: switched off`},
		{"nothing holds a limit", bound, listens, "limits.processes has no effect on this host"},
		{"nothing is confined", Report{}, listens, "no program runs on this host"},
	} {
		got := strings.Join(tt.r.Idle(tt.s), "\n")
		if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
