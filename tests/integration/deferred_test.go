package integration

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// listed are the names of the definitions that a client gets.
func (d *running) listed(session, query string) []string {
	d.t.Helper()
	var defs []struct{ Name string }
	if err := d.agent.Do(d.t.Context(), "GET", "/sessions/"+session+"/tools"+query, nil, &defs); err != nil {
		d.t.Fatal(err)
	}
	names := []string{}
	for _, def := range defs {
		names = append(names, def.Name)
	}
	return names
}

func TestT50_ASearchBringsDeferredTools(t *testing.T) {
	d := newDaemon(t, "")
	s := d.session()
	first := d.listed(s, "")
	for name, want := range map[string]bool{
		"Bash": true, "Read": true, "ToolSearch": true, "ReadVar": true, "AskUser": true,
		"NotebookEdit": false, "TodoWrite": false, "Config": false, "EnterPlanMode": false, "ExitPlanMode": false,
	} {
		if slices.Contains(first, name) != want {
			t.Errorf("%s listed: %v, want %v", name, !want, want)
		}
		if !slices.Contains(d.listed(s, "?deferred=true"), name) {
			t.Errorf("%s is not among all tools of the session", name)
		}
	}
	r := d.call(s, "ToolSearch", `{"query":"select:TodoWrite"}`)
	found, err := json.Marshal(r.Data)
	var defs []struct {
		Name   string
		Schema json.RawMessage `json:"input_schema"`
	}
	if err == nil {
		err = json.Unmarshal(found, &defs)
	}
	if err != nil || len(defs) != 1 || defs[0].Name != "TodoWrite" || len(defs[0].Schema) < 10 {
		t.Fatalf("the search gave %s, %v", found, err)
	}
	want := slices.Sorted(slices.Values(append(first, "TodoWrite")))
	if got := d.listed(s, ""); !slices.Equal(got, want) {
		t.Errorf("after the search the session lists %q, want %q", got, want)
	}
	// Another session has not searched; a deferred tool can be called all the same.
	other := d.session()
	if r := d.call(other, "TodoWrite", `{"action":"list"}`); r.Status != "SUCCESS" {
		t.Errorf("a deferred tool answered %+v", r)
	}
	if got := d.listed(other, ""); !slices.Equal(got, first) {
		t.Errorf("another session lists %q, want %q", got, first)
	}
	d.stop(os.Interrupt)
	d.start()
	if got := d.listed(s, ""); !slices.Equal(got, want) {
		t.Errorf("after a restart the session lists %q, want %q", got, want)
	}
}

func TestT50_TheConfigurationSaysWhatIsDeferred(t *testing.T) {
	d := newDaemon(t, "tools: {deferred: [Glob]}\n")
	got := d.listed(d.session(), "")
	if slices.Contains(got, "Glob") || !slices.Contains(got, "Config") {
		t.Errorf("the session lists %q", got)
	}
}

func TestTheConfigurationSaysWhichToolsThereAre(t *testing.T) {
	d := newDaemon(t, "tools: {allowed: [Read, Config]}\n")
	s := d.session()
	if got := d.listed(s, ""); !slices.Equal(got, []string{"Config", "Read"}) {
		t.Errorf("the session lists %q", got)
	}
	if r := d.call(s, "Bash", `{"command":"true"}`); r.Status != client.StatusNotFound {
		t.Errorf("Bash: got %s %q", r.Status, r.FinalText)
	}
}
