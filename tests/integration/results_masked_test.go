package integration

import (
	"encoding/json"
	"strings"
	"testing"
)

// Results that leave the daemon for people have no secrets, also on the operator socket; the agent reads
// its own output whole.
func TestW05_OperatorsReadResultsMasked(t *testing.T) {
	d := newDaemon(t, "")
	session := d.session()
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
	made := d.call(session, "Bash", `{"command": "echo shown key=`+secret+` | tee kept.txt"}`)
	var vars []struct{ Name string }
	if err := d.agent.Do(t.Context(), "GET", "/sessions/"+session+"/vars", nil, &vars); err != nil || len(vars) == 0 {
		t.Fatalf("%v: %+v", err, vars)
	}
	said := map[string]any{"messages": []any{map[string]any{"role": "user", "content": "shown " + secret}}}
	if err := d.agent.Do(t.Context(), "POST", "/sessions/"+session+"/messages", said, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/calls/" + made.CallID, "/sessions/" + session + "/vars/" + vars[0].Name, "/sessions/" + session + "/messages",
	} {
		var whole, masked json.RawMessage
		if err := d.agent.Do(t.Context(), "GET", path, nil, &whole); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if err := d.operator.Do(t.Context(), "GET", path, nil, &masked); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if !strings.Contains(string(whole), secret) {
			t.Errorf("the agent does not read its own output whole: %s: %s", path, whole)
		}
		if strings.Contains(string(masked), secret) || !strings.Contains(string(masked), "shown") {
			t.Errorf("the operator reads: %s: %s", path, masked)
		}
	}
}
