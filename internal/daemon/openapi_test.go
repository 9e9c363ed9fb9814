package daemon

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"github.com/sandboxd/sandboxd/tests/golden"
)

func TestOpenAPIIsGenerated(t *testing.T) {
	want, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "../../docs/openapi.json", string(want)+"\n")
	var doc struct{ Components map[string]map[string]any }
	if err := json.Unmarshal(want, &doc); err != nil {
		t.Fatal(err)
	}
	for _, ref := range regexp.MustCompile(`"\$ref": "#/components/(\w+)/(\w+)"`).FindAllStringSubmatch(string(want), -1) {
		if doc.Components[ref[1]][ref[2]] == nil {
			t.Errorf("%s leads nowhere", ref[0])
		}
	}
}

// TestWhatAgentsMakeTheDaemonKeepNeedsRoom: each route by which an agent can make the daemon keep
// more is refused when there is no room on the disk; the others make none, or make room.
func TestWhatAgentsMakeTheDaemonKeepNeedsRoom(t *testing.T) {
	text, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Security  []map[string]any
			Responses map[string]any
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	keepsNothing := []string{
		"post /calls/{id}/cancel", "post /calls/{id}/connect", "post /calls/{id}/ended", "post /check",
		"post /jobs/{id}/input", "post /jobs/{id}/resize", "post /jobs/{id}/stop", "post /sessions/{id}/vars/remove",
		"post /sessions/{id}/skills/end", "post /sessions/{id}/mailbox/read",
		"post /sessions/{id}/text/prompt", "post /sessions/{id}/text/parse",
		"post /sessions/{id}/prompt-runtime/preview",
	}
	for path, operations := range doc.Paths {
		for method, o := range operations {
			agents := slices.ContainsFunc(o.Security, func(s map[string]any) bool { return s["agent"] != nil })
			brings := slices.Contains([]string{"post", "put", "patch"}, method)
			want := agents && brings && !slices.Contains(keepsNothing, method+" "+path)
			if _, refused := o.Responses["507"]; refused != want {
				t.Errorf("%s %s: refused when there is no room: %v, want %v; see route.Route.Keeps", method, path, refused, want)
			}
		}
	}
}
