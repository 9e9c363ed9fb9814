package shellparse

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/tier"
)

// TestA10_LimitsRefuseFast feeds what would exhaust a parser without a depth
// limit. Each must be refused with the limit named, within 64 MB.
func TestA10_LimitsRefuseFast(t *testing.T) {
	n := 1_000_000
	for _, tt := range []struct{ name, src, code string }{
		{"a million nested substitutions", strings.Repeat("$(", n), "too_large"},
		{"nested substitutions in 64 KiB", strings.Repeat("$(", 32<<10), "too_deep"},
		{"nested subshells", strings.Repeat("(", 60_000), "too_deep"},
		{"nested blocks", strings.Repeat("{ ", 30_000), "too_deep"},
		{"nested parameters", strings.Repeat("${x:-", 12_000), "too_deep"},
		{"nested ifs", strings.Repeat("if ", 20_000), "too_deep"},
		{"nested arithmetic", "echo $((" + strings.Repeat("(", 30_000), "too_deep"},
		{"unary operators", "echo $((" + strings.Repeat("!", 60_000) + "1))", "too_deep"},
		{"unary operators with blanks", "[[ " + strings.Repeat("! ", 30_000) + "a ]]", "too_deep"},
		{"subshells with quoted brackets", strings.Repeat(`(: ")";`, 7_000) + "ls" + strings.Repeat(")", 7_000), "too_deep"},
		{"substitutions with quoted brackets", strings.Repeat(`a $(: ")";`, 5_000) + "ls" + strings.Repeat(")", 5_000), "too_deep"},
		{"defaults with quoted braces", `echo ` + strings.Repeat(`${x:-"}"`, 6_000) + "a" + strings.Repeat("}", 6_000), ""},
		{"ifs with quoted ends", strings.Repeat(`if "fi"; then `, 3_000) + "ls" + strings.Repeat("; fi", 3_000), ""},
		{"backquotes", strings.Repeat("`", 60_000), ""},
		{"escaped backquotes", strings.Repeat("\\`", 30_000), ""},
		{"64 KiB and one", "echo " + strings.Repeat("a", 64<<10-4), "too_large"},
		{"100,000 words in 64 KiB of braces", "echo {1..1000}{1..100}", "too_large"},
		{"words", strings.Repeat("a ", 32_000), "too_large"},
		{"deletions", strings.Repeat("rm a b c d e f;", 334), "too_large"},
		{"fewer deletions", strings.Repeat("rm a b c d e f;", 333), ""},
		{"a sequence of a billion", "echo {1..1000000000}", "too_large"},
		{
			"long loops of loops",
			strings.Repeat("for i in 1 2 3 4 5 6 7 8 9; do ", 12) + "echo $i" + strings.Repeat("; done", 12),
			"too_large",
		},
		{
			"a file that loops write to",
			"for i in " + strings.Repeat("a ", 16) + "; do for j in " + strings.Repeat("a ", 16) + "; do echo " +
				strings.Repeat("a", 60_000) + " >> f; done; done",
			"",
		},
		{"a value that doubles", "x=a; " + strings.Repeat("x=$x$x; ", 19), "too_large"},
		{"a here-document of brackets", "cat <<'E'\n" + strings.Repeat("[", 49) + "\nE", "too_deep"},
		{"exported names", many("export a", ";", 300), "too_large"},
		{"links", strings.Repeat("ln -s a b;", 257), "too_large"},
		{"fewer links", strings.Repeat("ln -s a b;", 256), ""},
		{"deep functions", fork(40), "too_deep"},
		{"functions that call twice", fork(20), "too_large"},
		{"pipelines", strings.Repeat("a|", 10_000) + "a", "too_large"},
		{"lists", strings.Repeat("a&&", 10_000) + "a", "too_large"},
		{"evals", strings.Repeat("eval ", 40) + "ls", "too_deep"},
		{"NUL", "ls\x00", "control_character"},
		{"invalid UTF-8", "ls \xff", "invalid_utf8"},
		{"bare CR", "echo a\r# ; rm x", "control_character"},
		{"unterminated quote", "echo 'a", "syntax"},
		{"unterminated substitution", "echo $(a", "syntax"},
		{"unterminated here-document", "cat <<EOF\na", "syntax"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse(tt.src, Options{Dir: "/w"})
			runtime.ReadMemStats(&after)
			code := ""
			if e, ok := errors.AsType[*Error](err); ok {
				code = e.Code
			}
			if code != tt.code || (err != nil) != (tt.code != "") {
				t.Errorf("error %v with code %q, want %q", err, code, tt.code)
			}
			if tier.IsLong() { // what is not bounded takes minutes: in make test the limit of the run tells
				took := time.Hour // the best of a few: the machine may be busy with something else
				for range 5 {
					start := time.Now()
					_, _ = Parse(tt.src, Options{Dir: "/w"})
					took = min(took, time.Since(start))
				}
				if limit := 500 * time.Millisecond; took > limit {
					t.Errorf("took %v, want at most %v", took, limit)
				}
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 && !raceEnabled {
				t.Errorf("allocated %d bytes", got)
			}
		})
	}
}

func fork(n int) string {
	var b strings.Builder
	b.WriteString("f0() { echo x; }\n")
	for i := 1; i < n; i++ {
		b.WriteString("f" + strconv.Itoa(i) + "() { f" + strconv.Itoa(i-1) + "; f" + strconv.Itoa(i-1) + "; }\n")
	}
	return b.String() + "f" + strconv.Itoa(n-1)
}

// What is just within a limit is read.
func TestWhatIsWithinTheLimitsIsRead(t *testing.T) {
	for name, src := range map[string]string{
		"64 KiB":                         "echo " + strings.Repeat("a", 64<<10-5),
		"48 brackets in a here-document": "cat <<'E'\n" + strings.Repeat("[", 48) + "\nE",
		"values of half a megabyte":      "x=a; " + strings.Repeat("x=$x$x; ", 18),
	} {
		if _, err := Parse(src, Options{Dir: "/w"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
