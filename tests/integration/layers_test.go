package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// TestP24_EachLayerAloneStopsTheAct reads one file through a daemon in which only
// one layer has anything against it: Bash is allowed by a rule, as by mistake, and
// every other layer is told to let the act pass. Without any layer it succeeds.
func TestP24_EachLayerAloneStopsTheAct(t *testing.T) {
	t.Parallel()
	const (
		plain  = `touch ran; cat @W@/ws/secret.txt`
		hidden = `touch ran; sh ./read.sh` // the guard does not read scripts
		open   = "  deniedPaths: []\n"
	)
	for _, tt := range []struct {
		name, command string
		rules         string // of the policy
		hooks         string
		sandbox       string
		ran           bool   // the command was started
		code, stage   string // of the refusal, "" where there is none
		read          bool
	}{
		{name: "no layer", command: plain, sandbox: open, ran: true, read: true},
		{name: "no layer, in a script", command: hidden, sandbox: open, ran: true, read: true},
		{
			name: "policy", command: plain, sandbox: open, code: "policy_deny", stage: "judge",
			rules: "    deny: ['Bash(cat *)']\n",
		},
		{
			name: "hook", command: plain, sandbox: open, code: "hook_blocked", stage: "before",
			hooks: "hooks:\n  preToolUse:\n    - {matcher: ^Bash$, command: 'echo not this one >&2; exit 2'}\n",
		},
		{
			name: "guard, by the command", command: plain, code: "command_denied", stage: "judge",
			sandbox: open + "  deniedCommands: [cat]\n",
		},
		{
			name: "guard, by the path", command: plain, code: "path_denied", stage: "judge",
			sandbox: "  deniedPaths: ['@W@/ws/secret.txt']\n",
		},
		{name: "cage", command: hidden, sandbox: "  deniedPaths: ['@W@/ws/secret.txt']\n", ran: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDaemon(t, "")
			at := strings.NewReplacer("@W@", d.work)
			d.stop(os.Interrupt)
			d.write("ws/secret.txt", "PLANTED\n")
			d.write("ws/read.sh", at.Replace("cat @W@/ws/secret.txt\n"))
			const file = "approvals: {approver: false}\n" +
				"policy:\n  profile: observe\n  rules:\n    allow: [Bash]\n%s%ssandbox:\n%s"
			d.write("config.yaml", at.Replace(fmt.Sprintf(file, tt.rules, tt.hooks, tt.sandbox)))
			d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
			d.start()
			r := d.call(d.session(), "Bash", fmt.Sprintf(`{"command":%q}`, at.Replace(tt.command)))
			if got := strings.Contains(r.FinalText, "PLANTED"); got != tt.read {
				t.Errorf("read %v, want %v: %s", got, tt.read, r.FinalText)
			}
			if _, err := os.Stat(filepath.Join(d.ws, "ran")); (err == nil) != tt.ran {
				t.Errorf("started %v, want %v", err == nil, tt.ran)
			}
			refusal := client.Error{}
			if r.Error != nil {
				refusal = *r.Error
			}
			if refusal.Code != tt.code || refusal.Stage != tt.stage {
				t.Errorf("got %q in %q, want %q in %q: %s", refusal.Code, refusal.Stage, tt.code, tt.stage, r.FinalText)
			}
		})
	}
}
