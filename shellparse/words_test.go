package shellparse

import (
	"math/rand/v2"
	"os/exec"
	"path"
	"slices"
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

// bashWords has bash print the words that each line becomes: a w before each, a NUL behind it, and one more
// behind a line.
const bashWords = `for line; do
	x=vw xa=k
	(eval "set -- one; set -- $line" && [ $# -gt 0 ] && printf 'w%s\0' "$@") 2>&-
	printf '\0'
done`

// TestWordsAgainstBash: of random words that the reader knows, bash makes the files that the reader says.
func TestWordsAgainstBash(t *testing.T) {
	bash := needs.Program(t, "bash")
	count, rnd := tier.Rounds(t, 3000, 200_000), tier.Rand(t)
	known, dir := 0, t.TempDir()
	for done := 0; done < count; done += 500 {
		var lines []string
		for range 500 {
			lines = append(lines, aWord(rnd)+" "+aWord(rnd))
		}
		cmd := exec.Command(bash, append([]string{"--norc", "-c", bashWords, "bash"}, lines...)...)
		cmd.Env, cmd.Dir = []string{"HOME=/home/dev", "PATH=/nowhere", "LC_ALL=C.UTF-8"}, dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		rest := string(out)
		for _, line := range lines {
			var words []string
			for rest != "" && rest[0] != 0 {
				word, behind, _ := strings.Cut(rest, "\x00")
				words, rest = append(words, word[1:]), behind
			}
			rest = strings.TrimPrefix(rest, "\x00")
			got, ok := wordFiles(dir, line)
			if !ok {
				continue
			}
			known++
			var want []string
			for _, w := range words {
				if w == "" || w == "-" { // names nothing
					continue
				}
				if !path.IsAbs(w) {
					w = dir + "/" + w
				}
				want = append(want, path.Clean(w))
			}
			for _, w := range want {
				if !slices.Contains(got, w) {
					t.Errorf("cat -- %s: bash names %q, the reader %q", line, want, got)
					break
				}
			}
		}
	}
	t.Logf("%d of %d lines are known", known, count)
	if known < count/5 {
		t.Errorf("only %d of %d lines are known: the test shows too little", known, count)
	}
}

func aWord(rnd *rand.Rand) string {
	var b strings.Builder
	for range 1 + rnd.IntN(9) {
		b.WriteString(wordPieces[rnd.IntN(len(wordPieces))])
	}
	return b.String()
}

// wordFiles are the files that a line of words names, and whether the reader knows all of them.
func wordFiles(dir, line string) ([]string, bool) {
	s, err := Parse("x=vw; xa=k; set -- one; cat -- "+line, Options{Dir: dir, Home: "/home/dev"})
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
