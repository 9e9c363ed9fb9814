package program_test

import (
	"fmt"
	"path"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
	"github.com/sandboxd/sandboxd/shellparse/source"
)

// told is a shell that writes down what it is told.
type told struct {
	call    *program.Call
	lines   []string
	started [][]program.Word
	uses    []use
	dir     string
	steered bool // a variable makes a program run other code
}

// use is a path that a command uses, "" if it is not known.
type use struct {
	path      string
	recursive bool
}

func (s *told) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *told) start(how string, words ...program.Word) {
	if len(words) == 0 {
		return
	}
	s.call.Inner = append(s.call.Inner, func() {})
	s.started = append(s.started, words)
	s.say("%s %s", how, texts(words))
}

func (s *told) File(f program.Word, access program.Access, recursive bool) {
	u := use{recursive: recursive || f.Tree}
	switch {
	case f.Is("-"):
	case f.Known && path.IsAbs(f.Text):
		u.path = f.Text
	case f.Known:
		u.path = path.Join(s.dir, f.Text)
	}
	s.uses = append(s.uses, u)
	if recursive || f.Tree {
		s.say("%s %s and below", access, text(f))
		return
	}
	s.say("%s %s", access, text(f))
}

func (s *told) Code(f program.Word) {
	s.File(f, program.Read, false)
	s.lines[len(s.lines)-1] = "execute " + text(f)
}
func (s *told) Written(program.Word) []string { return nil }
func (s *told) CodeInput()                    { s.say("execute the input") }
func (s *told) Inline(program.Word) {
	s.say("opaque inline_code: %s executes code given in the line, which is not read here", s.call.Name)
}
func (s *told) Host(name string) { s.say("host %s", name) }
func (s *told) Chdir(to program.Word) {
	s.dir = path.Join(s.dir, to.Text)
	if path.IsAbs(to.Text) {
		s.dir = to.Text
	}
	s.say("cd %s", text(to))
}

func (s *told) Setenv(assignment program.Word) {
	name, value, _ := strings.Cut(assignment.Text, "=")
	s.steer(name, value)
	s.say("env %s", text(assignment))
}

func (s *told) Steer(name string, value program.Word) {
	s.steer(name, value.Text)
	s.say("set %s=%s", name, text(value))
}

func (s *told) steer(name, value string) {
	yes, _ := program.Steers(name, value, true, s.call.Name)
	s.steered = s.steered || yes
}

func (s *told) Start(words []program.Word) { s.start("start", words...) }
func (s *told) Again(argv []program.Word)  { s.start("or", argv...) }
func (s *told) Run(f program.Word) {
	words, plain := plainWords(f.Text)
	if !plain || !f.Known {
		words = []program.Word{f}
	}
	s.start("run", words...)
}

func (s *told) Opaque(code, message string, _ source.Pos) { s.say("opaque %s: %s", code, message) }
func (s *told) Exec(words []program.Word, elsewhere bool) {
	if elsewhere {
		s.start("start anywhere", words...)
		return
	}
	s.start("start", words...)
}

// text is a word, in ? ? if it is not known.
func text(f program.Word) string {
	if !f.Known {
		return "?" + f.Text + "?"
	}
	return f.Text
}

func texts(words []program.Word) string {
	var out []string
	for _, f := range words {
		out = append(out, text(f))
	}
	return strings.Join(out, " ")
}

func Example() {
	var argv []program.Word
	for _, word := range []string{"tar", "-C", "src", "-xzf", "a.tgz"} {
		argv = append(argv, program.Literal(word, source.Pos{}))
	}
	shell := &told{}
	shell.call = &program.Call{Shell: shell, Name: "tar", Argv: argv}
	shell.call.Analyse()
	for _, line := range shell.lines {
		fmt.Println(line)
	}
	// Output:
	// read a.tgz
	// read src
	// write src and below
	// cd src
}
