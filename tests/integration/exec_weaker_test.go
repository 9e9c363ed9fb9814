package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestExecTellsThatItsHostGivesLess: the daemon has namespaces and the agent, which runs the call, has none. The cage of
// the call is a weaker one then, and whoever reads the output is told; so is who runs a command without a daemon.
func TestExecTellsThatItsHostGivesLess(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	s := d.session()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const warning = "sandboxd: warning: the command ran without namespaces"
	for _, lacks := range []string{"", "namespaces"} {
		var held struct {
			CallID string `json:"call_id"`
		}
		in := map[string]any{"session_id": s, "tool": "Bash", "hold": true, "args": map[string]any{"command": "echo ran"}}
		if err := d.agent.Do(t.Context(), "POST", "/decide", in, &held); err != nil {
			t.Fatal(err)
		}
		for name, args := range map[string][]string{"a call": {"--call", held.CallID}, "a command": {"--", "echo", "ran"}} {
			cmd := exec.Command(exe, append([]string{filepath.Join(bin, "sandboxd"), "exec"}, args...)...)
			cmd.Dir, cmd.Env = d.ws, append(append([]string{}, d.env...), lackEnv+"="+lacks)
			if lacks == "" {
				cmd.Path, cmd.Args = cmd.Args[1], cmd.Args[1:]
			}
			var told strings.Builder
			cmd.Stderr = &told
			out, err := cmd.Output()
			if err != nil && strings.Contains(told.String(), "does not hold") {
				needs.Missing(t, "the isolation level without namespaces: %s", told.String())
			}
			if err != nil || string(out) != "ran\n" || strings.Contains(told.String(), warning) != (lacks != "") {
				t.Errorf("%s where the host lacks %q: %v: %s, %s", name, lacks, err, out, told.String())
			}
		}
	}
}
