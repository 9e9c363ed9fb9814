package program_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse/program"
	"github.com/sandboxd/sandboxd/shellparse/source"
)

// say is what a shell is told of a command. In the line $x is a word that is not known, or
// several; "$x" is one; * is a pattern; and behind <<< stands the standard input.
func say(line string) []string {
	line, input, given := strings.Cut(line, " <<< ")
	argv := wordsOf(line)
	s := &told{dir: "/w"}
	s.call = &program.Call{Shell: s, Name: argv[0].Text[strings.LastIndexByte(argv[0].Text, '/')+1:], Argv: argv}
	if given {
		s.call.In = program.Input{Kind: program.HereText, Text: input}
	}
	if name := s.call.Analyse(); name != "" {
		s.say("shell %s", name)
	}
	if s.call.Via != "" {
		s.say("via %s", s.call.Via)
	}
	return s.lines
}

func wordsOf(line string) []program.Word {
	var out []program.Word
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		f := program.Word{Known: true, At: source.Pos{Offset: int32(len(out))}}
		var known strings.Builder
		quote := byte(0)
		for line != "" && (quote != 0 || line[0] != ' ') {
			c := line[0]
			line = line[1:]
			switch {
			case quote != 0 && c == quote:
				quote = 0
				continue
			case quote == 0 && (c == '\'' || c == '"'):
				quote = c
				continue
			case c == '$' && quote != '\'':
				f.Known, f.Many = false, f.Many || quote == 0
				end := strings.IndexAny(line[1:], ` "'}/`) + 1
				if end == 0 {
					end = len(line)
				}
				if strings.HasPrefix(line, "{") {
					end++
				}
				f.Text += "$" + line[:end]
				line = line[end:]
				known.WriteByte('_')
				continue
			case c == '*' && quote == 0:
				f.Glob = true
			}
			f.Text += string(c)
			known.WriteByte(c)
		}
		if f.Glob {
			f.Pat = f.Text
		}
		if !f.Known {
			f.Skeleton = known.String()
		}
		out = append(out, f)
	}
	return out
}

func TestWhatAShellIsToldOfPrograms(t *testing.T) {
	text, err := os.ReadFile("testdata/programs.txt")
	if err != nil {
		t.Fatal(err)
	}
	line, want := "", []string(nil)
	check := func() {
		if line == "" {
			return
		}
		if got := say(line); !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %q\nwant %q", line, got, want)
		}
	}
	for row := range strings.Lines(string(text)) {
		row = strings.TrimRight(row, "\n")
		if said, ok := strings.CutPrefix(row, "\t"); ok {
			want = append(want, said)
		} else if !strings.HasPrefix(row, "#") && row != "" {
			check()
			line, want = row, nil
		}
	}
	check()
}

// A number that is not known does not hide what stands around it.
func TestNumbersStandForThemselves(t *testing.T) {
	f := program.Word{Text: "a[0]", Pat: `a\[*]`, Known: true, Glob: true, Number: true}
	if got := f.Numbers(); got.Text != "a[0]" || got.Glob || got.Pat != "" {
		t.Errorf("%+v", got)
	}
	if got := program.Literal("x", source.Pos{}).Numbers(); !got.Is("x") {
		t.Errorf("%+v", got)
	}
	if f.Is("a[0]") || f.Lit() != "" || !program.Placed([]program.Word{f}, 1) {
		t.Error("a number that is not known is no known word, and one word")
	}
	glob := program.Word{Text: "--f=*.go", Pat: "--f=*.go", Known: true, Glob: true}
	if got := glob.Sub("*.go"); !got.Glob || got.Pat != "*.go" || program.Placed([]program.Word{glob}, 1) {
		t.Errorf("%+v", got)
	}
	for pattern, live := range map[string]bool{"[": false, "[a]": true, `\*`: false, "a?": true} {
		if program.LivePattern(pattern) != live || program.LivePattern(program.EscapePattern(pattern)) {
			t.Errorf("%s: live is %v", pattern, !live)
		}
	}
}

func TestWhichVariablesSteerPrograms(t *testing.T) {
	for _, tt := range []struct {
		name, value, command string
		known                bool
		steers, byShell      bool
	}{
		{"FOO", "x", "", true, false, false},
		{"PAGER", "cat", "git", true, false, false},
		{"PAGER", "cat", "git", false, true, false},
		{"GIT_EDITOR", "rm x", "git", true, true, false},
		{"PATH", "/usr/bin:/bin", "", true, false, false},
		{"PATH", "/usr/bin:.", "", true, true, false},
		{"PS4", "+ $LINENO: ", "", true, false, false},
		{"PS4", "$(x)", "", true, true, true},
		{"PROMPT_COMMAND", "x", "", true, true, true},
		{"BASH_ENV", "/dev/null", "", true, false, false},
		{"BASH_ENV", "./x", "", true, true, false},
		{"POSIXLY_CORRECT", "1", "df", true, false, false},
		{"POSIXLY_CORRECT", "1", "", true, true, true},
		{"CC", "clang", "make", true, false, false},
		{"CC", "./x", "make", true, true, false},
		{"CMAKE_C_COMPILER_LAUNCHER", "ccache", "cmake", true, false, false},
		{"GOFLAGS", "-mod=mod", "go", true, false, false},
		{"GOFLAGS", "-count=1 --tags=x -v", "go", true, false, false},
		{"GOFLAGS", "-toolexec=x", "go", true, true, false},
		{"GOFLAGS", "-v -ldflags=-extld=./x", "go", true, true, false},
		{"GOFLAGS", "'-ldflags=-linkmode=external -extld=./x'", "go", true, true, false},
		{"GOFLAGS", "-o=/etc/x", "go", true, true, false},
		{"GOTOOLCHAIN", "go1.26", "go", true, false, false},
		{"LESS", "-R", "less", true, false, false},
		{"LESS", "+!x", "less", true, true, false},
		{"NODE_OPTIONS", "--max-old-space-size=9", "node", true, false, false},
		{"NODE_OPTIONS", "--max-old-space-size=9 --require=./x", "node", true, true, false},
		{"MAKEFLAGS", "-j9", "make", true, false, false},
		{"RUSTFLAGS", "", "cargo", true, false, false},
		{"RUSTFLAGS", "-Dwarnings -A dead_code -C opt-level=3 -Ctarget-cpu=native --cfg x -g", "cargo", true, false, false},
		{"RUSTFLAGS", "-Clinker=x", "cargo", true, true, false},
		{"RUSTFLAGS", "-g -C link-arg=-fuse-ld=./x", "cargo", true, true, false},
		{"RUSTFLAGS", "-gClinker=x", "cargo", true, true, false},
		{"RUSTFLAGS", "--codegen linker=x", "cargo", true, true, false},
		{"RUSTFLAGS", "-O @./x", "cargo", true, true, false},
		{"RUSTFLAGS", "-D @./x", "cargo", true, true, false}, // rustc reads that file first
		{"RUSTFLAGS", "--cfg -Clinker=x", "cargo", true, true, false},
	} {
		yes, byShell := program.Steers(tt.name, tt.value, tt.known, tt.command)
		if yes != tt.steers || byShell != tt.byShell {
			t.Errorf("%s=%s of %q: %v, %v, want %v, %v", tt.name, tt.value, tt.command, yes, byShell, tt.steers, tt.byShell)
		}
	}
	if !program.KeepsPath("PATH=$PATH:/usr/bin") || program.KeepsPath(`PATH="~/bin:$PATH"`) {
		t.Error("PATH keeps what it was with a system directory, and not with another")
	}
	if !program.Live("PATH") || program.Live("FOO") || !program.SetByShell("LINENO") || program.SetByShell("FOO") {
		t.Error("bash reads PATH and sets LINENO, and does neither to FOO")
	}
}
