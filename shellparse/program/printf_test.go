package program_test

import (
	"os/exec"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse/program"
	"github.com/sandboxd/sandboxd/shellparse/source"
)

func literals(args []string) (words []program.Word) {
	for _, arg := range args {
		words = append(words, program.Literal(arg, source.Pos{}))
	}
	return words
}

// TestWhatPrintfMakesOfAFormat, as bash does, or says that it does not know.
func TestWhatPrintfMakesOfAFormat(t *testing.T) {
	for _, tt := range []struct {
		format string
		args   []string
		known  bool
	}{
		{"a", nil, true},
		{`a\n\t\\`, nil, true},
		{`\x2f\x2fx\x1`, nil, true},
		{`\057\0057\57x\7`, nil, true},
		{`\x41B\1018\0101`, nil, true},
		{"%s-%s", []string{"a", "b"}, true},
		{"%s\\n", []string{"a", "b"}, true},
		{"%s-%d", []string{"a"}, true},
		{"100%%", nil, true},
		{"%5s|%-5s|%.1s|%3.1s", []string{"a", "b", "cd", "ef"}, true},
		{"r%c -rf %c", []string{"mx", "data"}, true},
		{"%*s", []string{"3", "a"}, true},
		{"%b", []string{`r\155\0155\x6d`}, true},
		{"%b-", []string{`a\cb`}, false},
		{"%03d %x %o %X", []string{"7", "255", "8", "10"}, true},
		{"%d", []string{"010"}, false},
		{"%q", []string{"a b"}, false},
		{"%(%s)T", nil, false},
		{`\q`, nil, true},
		{`\u0041`, nil, false},
		{"a%", nil, false},
		{"x", []string{"a", "b"}, true},
	} {
		got, known := program.Printf(tt.format, literals(tt.args), false)
		if known != tt.known {
			t.Errorf("printf %q %q: known is %v", tt.format, tt.args, known)
		}
		argv := append([]string{"-c", `printf "$@"`, "bash", tt.format}, tt.args...)
		if want, err := exec.Command("bash", argv...).Output(); err == nil && known && got != string(want) {
			t.Errorf("printf %q %q: got %q, bash has %q", tt.format, tt.args, got, want)
		}
	}
}

// TestWhatEchoPrints, of bash and of sh.
func TestWhatEchoPrints(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		posix  bool
		want   string
		unsure bool
	}{
		{args: []string{"a", "b"}, want: "a b\n"},
		{args: []string{"-n", "a"}, want: "a"},
		{args: []string{"-ne", `a\tb`}, want: "a\tb"},
		{args: []string{"-eE", `a\tb`}, want: `a\tb` + "\n"},
		{args: []string{"-e", `r\155`, `\0155`}, want: "rm m\n"},
		{args: []string{"-e", `a\cb`}, want: "a"},
		{args: []string{"-x", "a"}, want: "-x a\n"},
		{args: []string{"-e", `a\nb`}, posix: true, want: "-e a\nb\n"},
		{args: []string{"-n", `a\nb`}, posix: true, want: "a\nb"},
		{args: []string{`\x41`}, posix: true, unsure: true},
	} {
		got, known := program.Echo(literals(tt.args), tt.posix)
		if known == tt.unsure || known && got != tt.want {
			t.Errorf("echo %q: got %q, %v, want %q", tt.args, got, known, tt.want)
		}
	}
}
