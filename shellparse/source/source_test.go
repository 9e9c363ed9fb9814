package source_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/source"
	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

func Example() {
	file, err := source.Parse("git push | tee log")
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	fmt.Printf("%d statement: %T\n", len(file.Stmts), file.Stmts[0].Cmd)

	_, err = source.Parse("true # \\\nrm notes")
	fmt.Println("refused:", err)
	// Output:
	// 1 statement: *syntax.BinaryCmd
	// refused: a comment that ends in a backslash
}

// The lines are those of the guard, which holds them against real bash.
func TestX22_WhatBashReadsDifferentlyIsRefused(t *testing.T) {
	text, err := os.ReadFile("../../guard/testdata/differences.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	ofText := []string{
		"comment", "comment-start", "benign-comment", "crlf", "joint", "benign-joint", "letters", "benign-letters",
	}
	within := regexp.MustCompile(`eval|sh'? |trap|<<`) // what it runs is read when it is run
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var l struct{ ID, Technique, Command, Code, Expect string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(ofText, l.Technique) || within.MatchString(l.Command) {
			continue
		}
		seen[l.Technique] = true
		file, err := source.Parse(l.Command)
		var e *source.Error
		switch {
		case l.Expect == "allow" && (err != nil || file == nil):
			t.Errorf("%s: %q is refused: %v", l.ID, l.Command, err)
		case l.Code != "" && (!errors.As(err, &e) || e.Code != l.Code || e.Hint == "" || e.At.Line == 0):
			t.Errorf("%s: %q: %#v, want the code %s, with hint and place", l.ID, l.Command, err, l.Code)
		}
	}
	if len(seen) != len(ofText) {
		t.Errorf("the corpus has only %v", seen)
	}
}

func TestHereDocumentsThatMayEndElsewhereAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"a plain one", "cat <<E\na\nE\n", ""},
		{"a quoted one", "cat <<'E F'\na\nE F\n", ""},
		{"an escaped one", "cat <<\\E\na\nE\n", ""},
		{"one in the quotes of $", "cat <<$'E'\na\nE\n", ""},
		{"tabs in front of the end", "cat <<-E\n\ta\n\tE\n", ""},
		{"a backslash in the text", "cat <<E\na\\\nb\nE\n", ""},
		{"an escape in the delimiter", "cat <<$'\\x41'\nA\n\\x41\n", "an escape between the quotes"},
		{"an escape in double quotes", "cat <<\"A\\\\\"\nA\\\nA\\\\\n", "an escape between the quotes"},
		{"a joint behind the end", "cat <<A\nx\nA\\\n\nrm y\nA", "a backslash at the end"},
		{"an expansion in front of the end", "cat <<A\n$(x)A\nA", "a here-document that may end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := source.Parse(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			r := file.Stmts[0].Redirs[0]
			_, plain := r.Word.Parts[0].(*syntax.Lit)
			e := source.Heredoc(tt.in, r, !plain)
			if (e == nil) != (tt.want == "") || e != nil && !strings.HasPrefix(e.Msg, tt.want) {
				t.Errorf("%+v, want %q", e, tt.want)
			}
		})
	}
}

func TestWhatOnlyBashReads(t *testing.T) {
	for _, tt := range []struct {
		in, read string
		only     bool
	}{
		{"true a && echo b", "true a && echo b", false},
		{"true &>f rm y", "true & >f rm y", true},
		{"echo '&>'; a &>> b", "echo '&>'; a & >> b", true},
		{"[[ a || rm ]]", "[[ a || rm ]]", true},
		{"x+=y", "x+=y", true},
		{"declare x", "declare x", true},
	} {
		if got := source.OnlyBash(tt.in); got != tt.only {
			t.Errorf("%q: only bash is %v, want %v", tt.in, got, tt.only)
		}
		if _, read, _ := source.ParsePosix(tt.in); read != tt.read {
			t.Errorf("%q is read as %q, want %q", tt.in, read, tt.read)
		}
	}
	if !source.BashBuiltin("mapfile") || source.BashBuiltin("rm") {
		t.Error("mapfile is of bash alone, and rm is not")
	}
}

// Real bash reads $'…' in the same way, whatever stands in it.
func TestQuotesAgainstBash(t *testing.T) {
	bash := needs.Program(t, "bash")
	count, rnd := tier.Rounds(t, 2000, 200_000), tier.Rand(t)
	pieces := strings.Split(`\\ \x \x{ \u \U \c \0 \1 \7 \n \' \" \q { } 0 1 7 8 72 6d f F g x c @ m ffffffffffffffff 000000000000`, " ")
	var script, wrote strings.Builder
	var texts []string
	for range count {
		var b strings.Builder
		for range 1 + rnd.IntN(6) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		texts = append(texts, b.String())
		fmt.Fprintf(&script, "printf '%%s\\0' $'%s'\n", b.String())
	}
	cmd := exec.Command(bash, "--norc", "--noprofile")
	cmd.Env, cmd.Stdin, cmd.Stdout = []string{"LC_ALL=C.UTF-8"}, strings.NewReader(script.String()), &wrote
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	// What is not ASCII names no program, and has forms in bash that are no UTF-8.
	ascii := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= utf8.RuneSelf {
				return -1
			}
			return r
		}, s)
	}
	words := strings.Split(strings.TrimSuffix(wrote.String(), "\x00"), "\x00")
	if len(words) != len(texts) {
		t.Fatalf("%d words of %d texts", len(words), len(texts))
	}
	for i, text := range texts {
		if got := source.AnsiC(text); ascii(got) != ascii(words[i]) {
			t.Errorf("$'%s' is %q, and for bash %q", text, got, words[i])
		}
	}
}

func TestQuotesMeanWhatBashSays(t *testing.T) {
	for in, want := range map[string]string{
		`a\nb\tc`: "a\nb\tc", `\x72m`: "rm", `\x{72}m`: "rm", `\162m`: "rm", `\u0072\U00000072`: "rr", `\cA`: "\x01",
		`a\0b`: "a", `\q`: `\q`, `\xzz`: `\xzz`, `\"\'\?`: `"'?`, `end\`: `end\`,
		`rm\x{g}`: "rm", `rm\x{}b`: "rm", `rm\x{`: "rm", `\x{72m`: "rm", `\x{0}b`: "", `\x{172}m`: "rm",
		`\x{ffffffffffffffff72}m`: "rm", `\x{720000000000000000}m`: "",
	} {
		if got := source.AnsiC(in); got != want {
			t.Errorf("$'%s' is %q, want %q", in, got, want)
		}
	}
	if got := source.UnescapeDouble(`\$a \b \\ \"`); got != `$a \b \ "` {
		t.Errorf("in double quotes it is %q", got)
	}
}

// TestA10_WhatReordersALineIsRefused: a person would read another line than the shell.
func TestA10_WhatReordersALineIsRefused(t *testing.T) {
	const hidden = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" +
		"\u2028\u2029\u0085\u009b\x1b\x07\x7f"
	for _, r := range hidden {
		for _, form := range []string{"ls %s", "ls '%s'", "ls # %s", "cat <<A\n%s\nA"} {
			src := strings.ReplaceAll(form, "%s", "a"+string(r)+"b")
			var e *source.Error
			if _, err := source.Parse(src); !errors.As(err, &e) || e.Code != "control_character" ||
				e.At.End-e.At.Offset != int32(len(string(r))) {
				t.Errorf("%+q: %v, want control_character at %U", src, err, r)
			}
		}
	}
}
