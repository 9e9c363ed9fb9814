package guard

import "testing"

// A tree around a denied place asks, since the cage hides that place; where the tree is outside of
// what may be read at all, it is denied.
func TestATreeThatAsksIsStillOutsideTheScope(t *testing.T) {
	s := Settings{DeniedPaths: []string{"/etc"}, AllowedReadPaths: []string{"/home/dev/app"}}
	for line, want := range map[string]Verdict{"ls -R /": Deny, "ls -R /home/dev/app": Allow} {
		if got := JudgeCommand(line, "/home/dev/app", "/home/dev", s).Verdict; got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	s.AllowedReadPaths = nil
	if got := JudgeCommand("ls -R /", "/home/dev/app", "/home/dev", s).Verdict; got != Ask {
		t.Errorf("without a scope: %s, want ask", got)
	}
}
