package shellparse

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
	"github.com/sandboxd/sandboxd/shellparse/source"
)

// Parse lists what the program text src can do when bash runs it under o.
func Parse(src string, o Options) (*Script, error) {
	s, err := parse(src, o)
	if err != nil || !o.Typed || len(s.Opaque) == 0 {
		return s, err
	}
	o.Typed = false
	silent, err := parse(src, o)
	if err != nil {
		return nil, err
	}
	for i, opaque := range s.Opaque {
		s.Opaque[i].Typed = !slices.Contains(silent.Opaque, opaque)
	}
	return s, nil
}

func parse(src string, o Options) (*Script, error) {
	w := newWalker(o)
	if err := w.program(src, w.top(o), nil); err != nil {
		return nil, err
	}
	w.try(w.trapsLater)
	s, err := w.finish()
	w.release()
	return s, err
}

// Argv lists what a literal argument vector can do: nothing in it is expanded.
// Positions are offsets into the words joined by single blanks.
func Argv(words []string, o Options) (*Script, error) {
	w := newWalker(o)
	fields := make([]program.Word, 0, len(words))
	at := int32(0)
	for _, text := range words {
		if strings.IndexByte(text, 0) >= 0 {
			return nil, &Error{Code: "control_character", Msg: "an argument holds NUL", Hint: "leave it out"}
		}
		end := at + int32(len(text))
		fields = append(fields, program.Literal(text, Pos{Offset: at, End: end, Line: 1, Col: at + 1}))
		at = end + 1
	}
	if len(fields) > source.MaxWords {
		return nil, &Error{
			Code: "too_large", Msg: fmt.Sprintf("command has more than %d words", source.MaxWords),
			Hint: "split the command",
		}
	}
	if len(fields) > 0 {
		w.try(func() {
			w.start(call{argv: fields, external: true, at: fields[0].At}, w.top(o))
			w.trapsLater()
		})
	}
	return w.finish()
}

// walker visits a program and collects what it can do. It follows the statements in the order in which bash may run
// them; what is known at one place is in a [scope]. A walker is used again for another text (see walkers), so each
// field must be cleared then.
type walker struct {
	// out collects the answer.
	out *Script
	// opts is what Parse was given.
	opts Options

	// via says how the current place is reached, outermost first. It is never changed
	// in place, because commands keep it.
	via []string
	// src is the text that is being walked: the line, or the text of an argument.
	src string
	// fixed is nil in the line itself. Inside the text of an argument it is the place
	// of that argument, and every position is that one.
	fixed *Pos
	// nested counts the shells within shells at the current place.
	nested int
	// conds counts the conditions around the current place. A command that fails in a
	// condition does not end a shell with set -e.
	conds int

	// calls names the functions that are being followed, outermost first.
	calls []string
	// callsAt are the places of their calls.
	callsAt []Pos
	// declared lists the functions that the current text defines.
	declared []*syntax.FuncDecl
	// called holds the bodies that were followed at least once.
	called map[*syntax.Stmt]bool

	// written holds by path the contents that the text itself writes into files. made holds by path the command
	// that writes a file whose content is not known.
	written map[string][]string
	made    map[string]Run
	unkept  Run // the last one for which made had no room: what it makes may be any file
	// scripted are the scripts that run in loops or in the background, so that what comes later in the text may have
	// made them.
	scripted []scripted
	slurped  []slurped
	group    *group  // what prints into the same files as the current place; nil: nothing
	inside   []inner // what commands in substitutions print that nobody can read
	said     said    // the last text of the line that a command has passed on
	// links are those that the text makes. otherNames holds the programs that a file, or a name, may be because of the
	// text: see renamed.
	links      []link
	otherNames map[string][]string
	scripts    int // how many files that the text writes were followed as scripts
	// assigned names the variables that the text sets.
	assigned []string
	// traps are the texts that run later. unset are the names that the text takes away, and trapTakes those
	// that a trap takes away at any place; "" is any.
	traps            []trap
	unset, trapTakes []string
	// switched counts the places at which errexit may be switched off.
	switched int
	// goesOn is true if a trap may switch errexit off at any place.
	goesOn bool
	// entered are the directories into which the text has moved a shell.
	entered []workdir
	// back is true if a shell may go back to where it was before: popd.
	back bool
	// missing are the directories that may be missing, as far as a use depends on that.
	missing []string
	// anyCase is true if patterns may match names whose letters are of the other case.
	anyCase bool
	// rounds counts the loops around the current place, and beside the statements around it that run in the background.
	rounds, beside int
	// opaqueCommands are the places of commands that execute what nobody can read.
	opaqueCommands []Pos
	// opaqueReads are those among them whose code is not in their words, but may be in a file that they read.
	opaqueReads []Pos

	// piped holds directories: the last stage of a pipeline that was followed prints only paths below them. It is nil
	// if that stage may print anything else.
	piped []program.Word
	// typed says that somebody may type what the last stage of a pipeline prints.
	typed bool
	// execStdin is true when exec gave the shell another standard input.
	execStdin bool
	// fed holds the redirections that may be the standard input of the current place and have a substitution; see
	// [Command.Fed]. execFed is what exec left of them.
	fed, execFed Pos

	// open holds by number, or by {NAME}, the files that redirections may have opened under it. connected is true when
	// one may have connected to a host for reading, and execIn are the files that exec may have made the input.
	open      map[string][]File
	connected bool
	execIn    []program.Word

	// references is true when a variable may be another name for any variable: no
	// value is certain from there on.
	references bool
	// refs names the variables that are another name for a variable.
	refs map[string]bool
	// frozen names the variables that may be readonly: an assignment may not happen.
	frozen map[string]bool
	// arith is the first place where the value of a variable is evaluated, nil if
	// there is none.
	arith *Pos
	// suspect is the first value that such an evaluation would execute, nil if there
	// is none. Together with arith it makes the script opaque, in whatever order.
	suspect *Pos

	// again is true while the words of a wrapper are read a second time, as another
	// value of a variable would make them.
	again bool
	// first is the scope in which the text begins, with the memory that every line needs.
	first struct {
		scope
		dirs  [1]workdir
		vars  [4]binding
		words [2]program.Word
	}
	// idle holds analyses that have ended, whose memory the next one uses.
	idle []*act
	// spare holds scopes that were given back, for the next one.
	spare []*scope

	// steps counts the statements and commands that were followed, up to maxSteps.
	steps int
	// deletes counts the names that commands delete or move, up to maxDeletes.
	deletes int
	// words counts the words of all commands after expansion, up to maxWords.
	words int
	// text counts the bytes and words that values put into words, up to maxText.
	text int
	// err is the refusal that ended the walk, nil while it goes on.
	err error

	// handsDown is true when functions may be exported.
	handsDown bool
	// aborts are the places where the line that is walked may have ended.
	aborts []aborted
	// posix is true when the text is read as sh reads it. anyShell is true when another shell than bash may run it.
	posix, anyShell bool
	// texts names the variables that no longer hold the numbers of bash: see givesText.
	texts map[string]bool
}

// walkers are walkers that have ended, for their memory and that of their acts, which is half of what a short line
// takes. Nothing of an answer lies in it.
var walkers = sync.Pool{New: func() any { return new(walker) }}

func newWalker(o Options) *walker {
	w := walkers.Get().(*walker)
	w.out, w.opts = &Script{}, o
	return w
}

// maxIdle bounds the acts that an ended walker keeps: as many as commands of a line start each other. It bounds its
// spare scopes, too.
const maxIdle = 4

// release keeps the walker for the next text. A walker that gave up is dropped with its state.
func (w *walker) release() {
	idle, spare, written := w.idle, w.spare, w.written
	*w = walker{}
	w.idle, w.spare, w.written = upTo(maxIdle, idle), upTo(maxIdle, spare), written
	clear(written)
	walkers.Put(w)
}

// upTo returns at most the first n of a list, and lets the others go.
func upTo[T any](n int, list []*T) []*T {
	n = min(n, len(list))
	clear(list[n:])
	return list[:n]
}

func (w *walker) top(o Options) *scope {
	m := &w.first
	sc := &m.scope
	m.dirs[0].path = o.Dir
	sc.dirs, sc.vars = m.dirs[:], m.vars[:0]
	word := func(i int, text string) value {
		m.words[i] = program.Literal(text, Pos{})
		return value{words: m.words[i : i+1 : i+1]}
	}
	for name, text := range o.Env {
		w.noteText(name, value{words: []program.Word{program.Literal(text, Pos{})}})
		sc.exported(name)
		sc.hands(name)
		sc.set(name, value{words: []program.Word{program.Literal(text, Pos{})}})
	}
	if _, given := o.Env["HOME"]; !given && o.Home != "" {
		sc.hands("HOME")
		sc.set("HOME", word(0, o.Home))
	}
	if o.Dir != "" {
		sc.set("PWD", word(1, o.Dir))
	}
	return sc
}

// stop lets the walk give up from any depth.
type stop struct{ err *Error }

func (w *walker) fail(e *Error) { panic(stop{e}) }

// try runs f and keeps the refusal, if the walk gives up in it.
func (w *walker) try(f func()) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stop:
			w.err = r.err
		default:
			// A mistake in this package must deny the line, and must not end the daemon.
			w.err = &Error{
				Code: "internal", Msg: fmt.Sprintf("the line could not be read: %v", r),
				Hint: "write it in another way",
			}
		}
	}()
	f()
}

func (w *walker) finish() (*Script, error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.arith != nil && w.suspect != nil {
		w.out.Opaque = append(w.out.Opaque,
			Opaque{Code: "dynamic_eval", Message: "arithmetic would execute the text of a variable", At: *w.suspect})
	}
	w.takenAway()
	w.runsText()
	w.runsMade()
	w.throughLinks()
	return w.out, nil
}

// program parses and walks one text in sc. at is nil for the text that Parse was
// given, else the place of the word that holds src.
func (w *walker) program(src string, sc *scope, at *Pos) error {
	if w.posix {
		return w.asPosix(src, sc, at)
	}
	file, err := source.Parse(src)
	if err != nil {
		var pe *Error
		if errors.As(err, &pe) && at != nil {
			pe.At = *at
		}
		return err
	}
	return w.walkFile(file, src, sc, at)
}

// walkFile walks a text that was parsed.
func (w *walker) walkFile(file *syntax.File, src string, sc *scope, at *Pos) error {
	savedSrc, savedFixed, savedDeclared := w.src, w.fixed, w.declared
	w.src, w.fixed, w.declared = src, at, nil
	inLists := min(3, strings.Count(src, "|")+strings.Count(src, "&&"))
	w.out.Commands = slices.Grow(w.out.Commands, len(file.Stmts)+inLists)
	w.try(func() {
		w.lines(file.Stmts, sc)
		w.uncalled(sc)
	})
	w.src, w.fixed, w.declared = savedSrc, savedFixed, savedDeclared
	if w.err != nil {
		return w.err
	}
	return nil
}

// pos returns the place of a node.
func (w *walker) pos(n syntax.Node) Pos {
	if w.fixed != nil {
		return *w.fixed
	}
	p, end := n.Pos(), n.End()
	return Pos{Offset: int32(p.Offset()), End: int32(end.Offset()), Line: int32(p.Line()), Col: int32(p.Col())}
}

// source returns the text of a node as it was written.
func (w *walker) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from > to || to > len(w.src) {
		return ""
	}
	return w.src[from:to]
}

func (w *walker) step(n syntax.Node) {
	if w.steps++; w.steps > maxSteps {
		var at Pos
		if n != nil {
			at = w.pos(n)
		}
		w.fail(&Error{
			Code: "too_large",
			Msg:  fmt.Sprintf("command has more than %d steps, loops and functions followed", maxSteps),
			Hint: "split the command", At: at,
		})
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

// The limits of a walk, beside those that package source has for one text. What goes over
// one of them is refused with the limit named; no check is ever left out because of it.
const (
	maxNested = 8       // shells within shells
	maxText   = 1 << 20 // bytes of all values that parameters put into words
	maxSteps  = 25_000  // statements walked, loops and functions followed
	maxVars   = 1_000   // variables that are tracked; more are unknown
	maxNames  = 250     // functions, and exported names
	maxBraces = 1_000   // words of one brace expansion
	maxUnroll = 16      // items of a loop that are followed one by one

	maxDeletes = 2_000 // names that commands delete or move, each with facts of its own for policies
)
