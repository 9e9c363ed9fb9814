//go:build linux

package guard

import (
	"os/exec"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestX22_LinesThatBashReadsDifferently holds each line of differences.jsonl against
// real bash and the guard: what bash runs of rm is denied with the code that the line
// names, and what is allowed runs no rm.
func TestX22_LinesThatBashReadsDifferently(t *testing.T) {
	bash := needs.Program(t, "bash")
	yard := newYard(t, bash)
	yard.patience = 20 * time.Second // every line ends by itself
	rules := NewRules(Settings{DeniedCommands: []string{"rm"}})
	shIsBash := exec.Command(yard.sh, "-c", `test "$BASH_VERSION"`).Run() == nil
	for _, l := range readCorpus(t, "differences.jsonl") {
		if (l.Technique == "sh" || l.Technique == "sh-unknown-name") && shIsBash {
			l.Runs = yard.sings(t, l.Command, "rm") // what another sh does cannot be seen here
		}
		ran := yard.sings(t, l.Command, "rm")
		for range 5 { // on a busy machine what runs in the background may tell late
			ran = ran || l.Runs && yard.sings(t, l.Command, "rm")
		}
		if ran != l.Runs {
			t.Errorf("%s %s: bash ran rm is %v, want %v: %q", l.ID, l.Technique, ran, l.Runs, l.Command)
		}
		j := rules.JudgeCommand(l.Command, yard.dir, yard.dir)
		if allowed := j.Verdict == Allow; allowed != (l.Expect == "allow") || allowed && l.Runs {
			t.Errorf("%s %s: %s, want %s: %q: %+v", l.ID, l.Technique, j.Verdict, l.Expect, l.Command, j.Reasons)
		}
		if l.Code == "" {
			continue
		}
		if len(j.Reasons) == 0 || j.Reasons[0].Code != l.Code || j.Reasons[0].Message == "" || j.Reasons[0].Hint == "" {
			t.Errorf("%s %s: %+v, want a reason %s with a hint: %q", l.ID, l.Technique, j.Reasons, l.Code, l.Command)
		}
	}
}
