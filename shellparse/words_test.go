package shellparse

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// wordPieces are what a word is made of: what bash expands, and what keeps it from doing so.
var wordPieces = []string{
	"{", "{", "}", "}", ",", ",", "..", "a", "b", "1", "3", "root", "~", "~/", "/", "+", "-", ".", ":", "=", "x=", "#", "!", "^", "@", "%",
	`""`, `''`, `'q'`, `"r"`, `"$x"`, `'$x'`, `$'\x41'`, `$"s"`, `\`, `\{`, `\,`, `\~`, `\\`, "[", "]", "x[0]=", `'*'`, `\*`, ":~", "=~",
	"$x", "$xa", "${x}", "${u}", "$1", "$2", "${u:-~/d}", "${x:-c}", "${x:+~}", "${u-{a,b}}", "${x#v}", "${x%w}", "${x/v/w}", "${#x}", "${x:1}", "${x^}",
	"$(echo z)", "`echo z`", "$((1+2))", "$[1+2]",
}

// bashWords has bash print for each call of cat where it is and its words, with the number of the script before each and a NUL
// behind it: what a script leaves running may call cat later.
const bashWords = `export n=0
cat() { shift; printf "$n %s\0" "p$DIRSTACK" "${@/#/w}"; } >&3
export -f cat
for script; do
	(eval "$script"; wait) 3>&1 >/dev/null 2>&1 </dev/null
	n=$((n+1))
done`

// TestWordsAgainstBash: of the words of random scripts that the reader knows, bash makes no file that the reader does not name.
func TestWordsAgainstBash(t *testing.T) {
	bash := needs.Program(t, "bash")
	count, rnd := tier.Rounds(t, 4000, 200_000), tier.Rand(t)
	known, dir, bin := 0, t.TempDir(), t.TempDir()
	if err := os.Symlink(bash, bin+"/bash"); err != nil {
		t.Fatal(err)
	}
	for done := 0; done < count; done += 500 {
		var scripts []string
		for range 500 {
			scripts = append(scripts, "x=vw; xa=k; set -- one; "+someWords(rnd))
		}
		cmd := exec.Command(bash, append([]string{"--norc", "-c", bashWords, "bash"}, scripts...)...)
		cmd.Env, cmd.Dir = []string{"HOME=/home/dev", "PATH=" + bin, "LC_ALL=C.UTF-8"}, dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		names, at := make([][]string, len(scripts)), make([]string, len(scripts))
		for record := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			number, text, _ := strings.Cut(record, " ")
			n, err := strconv.Atoi(number)
			if err != nil || n >= len(scripts) {
				t.Fatalf("bash printed %q", record)
			}
			switch word := text[1:]; {
			case text[0] == 'p':
				at[n] = word
			case word == "" || word == "-": // names nothing
			case path.IsAbs(word):
				names[n] = append(names[n], path.Clean(word))
			default:
				names[n] = append(names[n], path.Clean(at[n]+"/"+word))
			}
		}
		for n, script := range scripts {
			got, ok := wordFiles(dir, script)
			if !ok {
				continue
			}
			known++
			for _, name := range names[n] {
				if !slices.Contains(got, name) {
					t.Errorf("%s: bash names %q, the reader %q", script, names[n], got)
					break
				}
			}
		}
	}
	t.Logf("%d of %d scripts are known", known, count)
	if known < count/6 {
		t.Errorf("only %d of %d scripts are known: the test shows too little", known, count)
	}
}

// someWords are words for cat, or what gives variables values that cat then gets.
func someWords(rnd *rand.Rand) string {
	if rnd.IntN(2) == 0 {
		return "cat -- " + aWord(rnd) + " " + aWord(rnd)
	}
	var b strings.Builder
	for range 1 + rnd.IntN(4) {
		b.WriteString(aStep(rnd) + "; ")
	}
	for range 1 + rnd.IntN(2) {
		b.WriteString("cat -- " + pick(rnd, wordUses) + "; ")
	}
	return b.String()
}

func pick(rnd *rand.Rand, from []string) string { return from[rnd.IntN(len(from))] }

// wordSteps change variables; W is a word, V the name of a variable.
var wordSteps = []string{
	"V=W", "V=W", "V=W", "V+=W", "V=(W W)", "V[1]=W", "V+=(W)", "set -- W W", "shift", "export V=W", "declare V=W", "declare x=W xa=W V=W", "export x=W V=$x", "V=W xa=$x V=W", "x=W V=W :", "unset V",
	"read V <<< W", "printf -v V %s W", "V=$(echo W)", "V=`printf %s W`", "for V in W W; do :; done", "for V in W; do cat -- $V; done",
	"if false; then V=W; fi", "if true; then V=W; else V=W; fi", "f() { V=W; }; f", "f() { local V=W; cat -- $V; }; f W",
	"f() { cat -- $1; }; f W W", "case W in a*) V=W;; *) V=W;; esac", "(V=W)", "{ V=W; }", "IFS=a", "IFS=:/", "unset IFS", "cd /W", "pushd /a",
	"eval V=W", "eval 'V=W'", "true && V=W", "false || V=W", "V=W true", "V=W; V=$V$V", "V=${V%W}", "V=${V#?}", "V=${V/W/a}", "V=${V:-W}",
	": ${V:=W}", ": ${V=W}", "while V=W; do break; done", "((V=1+2))", "((V++))", "let V=3", "V=W | :", "V=W & :", "readonly V=W", "declare -n V=xa",
	"declare -u V=W", "declare -i V=1+1", "mapfile -t V <<< W", "set -f", "shopt -s nullglob", "set -o posix", "V=\"W\"", "V='W'", "getopts a V",
	"[[ W =~ (.)(.) ]]; V=${BASH_REMATCH[1]}", "select V in W; do break; done", "coproc V=W", "trap 'V=W' EXIT", "alias V=W", "PWD=W", "HOME=/W",
	"OLDPWD=/W", "V=~", "V=$PWD", "V=$OLDPWD", "V=${#V}", "V=${!V}", "V=${V@Q}", "export V; bash -c 'cat -- $x'", "V=W bash -c 'cat -- $x $xa'",
	"export V=W; unset V; V=W; bash -c 'cat -- $V'", "bash -c 'cat -- $1 $0' W W", "bash -c 'V=W; cat -- $V'", "set -a; V=W; bash -c 'cat -- $V'", "V=${V^^}", "V=$'W'", "set -- \"$@\" W", "V=$*", "V=$#",
}

// wordUses are what cat gets.
var wordUses = []string{
	"$x", "$xa", `"$x"`, `"$xa"`, "$1", `"$2"`, `"$@"`, "$*", `"$*"`, "${x[0]}", "${x[1]}", `"${xa[@]}"`, "~/$x", "a$x", "$x/b", "${x%?}", "${xa:-d}",
	"~", "~+/a", "~-/a", "${x}${xa}", "$PWD/a", "${x#a}", "${x:1}", "${#x}", "${x,,}", "$x{a,b}", "${x}{a,b}", "x=~/$x",
	"${x[@]:1}", "${x[-1]}", "${@:1}", "${x:-$xa}", `${x:-"$xa"}`, `"${x[*]}"`, "${x[@]/a/b}", "${x[$xa]}", "${xa[1+1]}", "${!1}", "$(echo $x)",
	`"$(echo "$x"; echo $xa)"`, "${x##*a}", "${x%%/*}", "${x//a}", "$((xa))", "a{$x,$xa}b", "~$x", "$x~", `"a"$x'b'`, "${x+~}", "${1+$2}",
}

func aStep(rnd *rand.Rand) string {
	step := pick(rnd, wordSteps)
	for strings.Contains(step, "W") {
		step = strings.Replace(step, "W", aWord(rnd), 1)
	}
	return strings.ReplaceAll(step, "V", pick(rnd, []string{"x", "xa"}))
}

func aWord(rnd *rand.Rand) string {
	var b strings.Builder
	for range 1 + rnd.IntN(7) {
		b.WriteString(pick(rnd, wordPieces))
	}
	return b.String()
}

// wordFiles are the files that a script has cat read, and whether the reader knows all of them.
func wordFiles(dir, script string) ([]string, bool) {
	s, err := Parse(script, Options{Dir: dir, Home: "/home/dev"})
	if err != nil || len(s.Opaque) > 0 {
		return nil, false
	}
	var out []string
	for _, c := range s.Commands {
		for _, f := range c.Files {
			if !f.Known || f.Glob {
				return nil, false
			}
			out = append(out, path.Clean(f.Path))
		}
	}
	return out, true
}
