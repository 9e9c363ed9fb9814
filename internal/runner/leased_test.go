package runner

import (
	"os"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// A binary that is started as the launcher and does not know that it is one, such as
// this one, must end at once. It used to run its tests, which made a cage, which
// started it again.
func TestAProgramThatIsNoLauncherDoesNotStartItselfForever(t *testing.T) {
	if os.Args[0] == wire.Arg0 {
		t.Fatal("these tests run as the launcher")
	}
	dir := t.TempDir()
	end := new(Program).Leased(t.Context(), tool.Lease{
		CallID: "call_A", Session: "ses_1", Argv: []string{"true"}, Dir: dir, Home: dir, Profile: "strict",
		Roots: []string{dir},
	}, nil)
	if !strings.Contains(end.Failure, "flag provided but not defined: "+wire.Flag) {
		t.Errorf("got %+v, want an error that names the flag", end)
	}
}
