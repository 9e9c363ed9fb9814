package shellparse

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// Parse lists what the program text src can do when bash runs it under o.
func Parse(src string, o Options) (*Script, error) {
	w := newWalker(o)
	if err := w.program(src, w.top(o), nil); err != nil {
		return nil, err
	}
	return w.finish()
}

// Argv lists what a literal argument vector can do: nothing in it is expanded.
// Positions are offsets into the words joined by single blanks.
func Argv(words []string, o Options) (*Script, error) {
	w := newWalker(o)
	fields := make([]field, 0, len(words))
	at := int32(0)
	for _, text := range words {
		if strings.IndexByte(text, 0) >= 0 {
			return nil, &Error{Code: "control_character", Msg: "an argument holds NUL", Hint: "leave it out"}
		}
		fields = append(fields, literal(text, Pos{Offset: at, End: at + int32(len(text)), Line: 1, Col: at + 1}))
		at += int32(len(text)) + 1
	}
	if len(fields) > maxWords {
		return nil, &Error{Code: "too_large", Msg: fmt.Sprintf("command has more than %d words", maxWords), Hint: "split the command"}
	}
	if len(fields) > 0 {
		w.try(func() { w.start(call{argv: fields, external: true, at: fields[0].at}, w.top(o)) })
	}
	return w.finish()
}

// walker visits a program and collects what it can do.
type walker struct {
	out        *Script
	opts       Options
	via        []string
	fixed      *Pos // inside the text of an argument: the place of that argument
	src        string
	nested     int // shells within shells
	conds      int // conditions, in which a failing command does not end a set -e shell
	calls      []string
	piped      []field // below which the input of the last stage of a pipeline names files
	called     map[*syntax.Stmt]bool
	declared   []*syntax.FuncDecl
	references bool // a variable is another name for a variable
	execStdin  bool // exec gave the shell another standard input
	idle       []*act
	again      bool // the words are read a second time, as they may be
	steps      int
	words      int
	text       int  // bytes and words that values put into words
	arith      *Pos // first arithmetic evaluation of a variable
	suspect    *Pos // first value that arithmetic would execute
	err        error
}

func newWalker(o Options) *walker {
	return &walker{out: &Script{}, opts: o}
}

func (w *walker) top(o Options) *scope {
	sc := &scope{dirs: []workdir{{path: o.Dir}}, vars: make(bindings, 0, len(o.Env)+4)}
	for name, text := range o.Env {
		sc.exported(name)
		sc.set(name, value{words: []field{literal(text, Pos{})}})
	}
	if _, given := o.Env["HOME"]; !given && o.Home != "" {
		sc.set("HOME", value{words: []field{literal(o.Home, Pos{})}})
	}
	if o.Dir != "" {
		sc.set("PWD", value{words: []field{literal(o.Dir, Pos{})}})
	}
	return sc
}

// stop is how the walk gives up from any depth.
type stop struct{ err *Error }

func (w *walker) fail(e *Error) { panic(stop{e}) }

// try runs f and keeps the refusal with which it gave up.
func (w *walker) try(f func()) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stop:
			w.err = r.err
		default:
			// A mistake in here must deny the line and leave the daemon up.
			w.err = &Error{Code: "internal", Msg: fmt.Sprintf("the line could not be read: %v", r), Hint: "write it in another way"}
		}
	}()
	f()
}

func (w *walker) finish() (*Script, error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.arith != nil && w.suspect != nil {
		w.out.Opaque = append(w.out.Opaque, Opaque{Code: "dynamic_eval", Message: "arithmetic would execute the text of a variable", At: *w.suspect})
	}
	return w.out, nil
}

// program parses and walks one text in sc. at is nil for the text that Parse was
// given, else the place of the word that holds src.
func (w *walker) program(src string, sc *scope, at *Pos) error {
	file, err := parse(src)
	if err != nil {
		var pe *Error
		if errors.As(err, &pe) && at != nil {
			pe.At = *at
		}
		return err
	}
	savedSrc, savedFixed, savedDeclared := w.src, w.fixed, w.declared
	w.src, w.fixed, w.declared = src, at, nil
	w.out.Commands = slices.Grow(w.out.Commands, max(len(file.Stmts), 4))
	w.try(func() {
		w.stmts(file.Stmts, sc)
		w.uncalled(sc)
	})
	w.src, w.fixed, w.declared = savedSrc, savedFixed, savedDeclared
	if w.err != nil {
		return w.err
	}
	return nil
}

// parsers are costly to make and keep nothing of what they parsed.
var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}

func parse(src string) (*syntax.File, error) {
	if err := precheck(src); err != nil {
		return nil, err
	}
	file, err := parseFile(src)
	if err == nil {
		return file, nil
	}
	if internal := (*Error)(nil); errors.As(err, &internal) {
		return nil, internal
	}
	e := &Error{Code: "syntax", Msg: err.Error(), Hint: "correct the shell syntax"}
	if pe := (syntax.ParseError{}); errors.As(err, &pe) {
		e.Msg = pe.Text
		off := min(int(pe.Pos.Offset()), len(src))
		e.At = place(src, off, off)
	}
	return nil, e
}

func parseFile(src string) (file *syntax.File, err error) {
	p := parsers.Get().(*syntax.Parser)
	defer func() {
		if r := recover(); r != nil { // the parser is dropped with its state
			err = &Error{Code: "internal", Msg: fmt.Sprintf("the parser failed: %v", r), Hint: "write it in another way"}
			return
		}
		parsers.Put(p)
	}()
	return p.Parse(strings.NewReader(src), "")
}

// pos is the place of a node.
func (w *walker) pos(n syntax.Node) Pos {
	if w.fixed != nil {
		return *w.fixed
	}
	p, end := n.Pos(), n.End()
	return Pos{Offset: int32(p.Offset()), End: int32(end.Offset()), Line: int32(p.Line()), Col: int32(p.Col())}
}

// source is the text of a node as it was written.
func (w *walker) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from > to || to > len(w.src) {
		return ""
	}
	return w.src[from:to]
}

func (w *walker) step(n syntax.Node) {
	if w.steps++; w.steps > maxSteps {
		w.fail(&Error{Code: "too_large", Msg: fmt.Sprintf("command has more than %d steps, loops and functions followed", maxSteps), Hint: "split the command", At: w.pos(n)})
	}
}

func (w *walker) opaque(o Opaque) {
	w.out.Opaque = append(w.out.Opaque, o)
}

// within runs f with one more step of "how it is reached".
func (w *walker) within(via string, f func()) {
	saved := w.via
	w.via = append(saved[:len(saved):len(saved)], via)
	f()
	w.via = saved
}
