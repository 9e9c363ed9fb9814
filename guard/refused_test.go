//go:build linux

package guard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// refusals are words that make a builtin of bash refuse the whole command: options that it does not
// have, and values that it does not take.
var refusals = []string{"-Z", "--zz", "-help", "-version", "-1", "+z", `""`, "-- -z", "$u-Z", `"-"Z`, "-Z=a/b"}

// changes are commands by which bash would change what "$x y" starts, with %s where it finds the word that
// it refuses.
var changes = []string{
	`read %s x <<< true`, `read -r %s x <<< true`, `read -t %s x <<< true`, `read -n %s x <<< true`,
	`read -N %s x <<< true`, `read -u %s x <<< true`, `readarray %s -t x <<< true`, `mapfile -t %s x <<< true`,
	`mapfile -t -n %s x <<< true`, `unset %s x`, `declare %s x=true`, `typeset %s "x=true"`, `export %s x=true`,
	`readonly %s x=true`, `builtin declare %s x=true`, `builtin %s declare x=true`, `command export %s x=true`,
	`command %s export x=true`, `builtin %s read x <<< true`, `command %s read x <<< true`, `eval %s x=true`,
	`builtin eval %s x=true`, `command %s eval x=true`, `printf %s -v x %%s true`, `printf -v x %s %%s true`,
	`printf -v %s x %%s true`, `let %s x=0`, `set %s -- true; x=$1`, `set -- canary; set %s true; x=$1`,
	`set -e %s -- true; x=$1`, `set -- canary true; shift %s; x=$1`, `set -- canary true; shift %s 1; x=$1`,
	`set -- true canary; shift 1 %s; x=$1`, `f() { shift %s; x=$1; }; f canary true`, `getopts %s a x -a`,
	`wait %s -p x`, `y=z; declare %s -n x=y; y=true`, `f() { local %s x=true; }; f`,
	`f() { declare %s -g x=true; }; f`, `f() { return %s; x=true; }; f`, `f() { x=true; return %s; }; f`,
	`exit %s`, `return 1 %s`, `break %s`, `for i in 1 2; do break %s; canary y; done`, `exec %s true`, `exec %s`,
	`trap %s "x=true" EXIT`, `cd %s . && x=true`, `hash %s -p canary x`, `enable %s -n true`,
	`f() { canary y; }; unset %s f; f`, `f() { canary y; }; readonly %s -f f; f() { true; }; f`,
	"shopt %s -s expand_aliases\nalias x=true\n", "shopt -s expand_aliases\nalias %s x=true\n",
	`set -e; set %s +e; false; canary y`, `set %s -e; false; canary y`, `set -u; set %s +u; echo $u; canary y`,
	`test %s x && x=true`, `type %s cat && x=true`, `command -v %s cat && x=true`, `source %s <(echo x=true)`,
}

// TestABuiltinThatRefusesItsWords tries commands that bash refuses for a word in them: it changes nothing,
// and what the guard believes of the rest must hold all the same.
func TestABuiltinThatRefusesItsWords(t *testing.T) {
	yard := newYard(t, needs.Program(t, "bash"))
	ran, tried := 0, 0
	for i, change := range changes {
		for k, word := range refusals {
			if (i+k)%2 == 1 && !tier.IsLong() {
				continue
			}
			tried++
			script := fmt.Sprintf("x=canary; "+change+"; $x y", word)
			started := yard.starts(t, script)
			if len(started) > 0 {
				ran++
			}
			if unseen := yard.unseen(t, script, started); len(unseen) > 0 {
				t.Errorf("bash started %q and the guard did not see it: %q", unseen, script)
			}
		}
	}
	if ran < tried/2 {
		t.Errorf("%d of %d scripts started a program: the test shows too little", ran, tried)
	}
	for _, harmless := range []string{
		"x=$(cat y); read -r a b <<< \"$x\"", "set -- a b; shift; shift 1", "command -p ls", "eval -- ls",
		"exec -a x ls", "mapfile -t lines < y", "unset -v x", "trap 'ls' EXIT", "shopt -s nullglob", "hash -r",
		"read -t 5 -n 3 x <<< abc", "getopts :ab x -a", "wait -n", "builtin cd .",
	} {
		rules := NewRules(Settings{DeniedCommands: []string{"canary"}})
		if j := rules.JudgeCommand(harmless, yard.dir, yard.dir); j.Verdict != Allow {
			t.Errorf("%q is %s: %+v", strings.TrimSpace(harmless), j.Verdict, j.Reasons)
		}
	}
}
