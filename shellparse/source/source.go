// Package source reads the text of a shell program into a tree.
//
// Text goes in; the tree of the parser mvdan.cc/sh comes out. Guaranteed, with the two checks below:
// the tree means what bash would do with the text, as far as the differences of the two are known
// here. Text that bash and the parser read differently is an [*Error], and so is text that is no
// shell program, too large or too deep, not UTF-8, or that holds control characters.
//
//	file, err := source.Parse("git push | tee log")
//
// Two checks are left to the caller. One is [Heredoc], for each here-document of the tree. The
// other is [Check], before [ParsePosix] and [OnlyBash] if Parse has not read the same text: they make
// none of the checks of Parse. ParsePosix reads text as a shell does that knows nothing of bash's
// own, and returns the errors of the parser.
//
//	err = source.Check(text)
//	file, read, err := source.ParsePosix(text) // places belong to read, not to text
//
// [OnlyBash] says whether that tree may differ from the one of Parse, and [BashBuiltin] names what only
// bash has. [AnsiC], [UnescapeDouble] and [Digits] decode text inside of quotes.
//
// A new difference between bash and the parser belongs here and is an [*Error] with the code
// "parser_difference": in Check if the text alone shows it, in Heredoc if it is in a here-document,
// else as a function over text and tree that [Parse] calls. It refuses more than it must rather than
// less, and its cases stand in guard/testdata/differences.jsonl. If
// Parse refuses a new technique of that file, add it to ofText in source_test.go. Which words a command
// gets, and what it does, is not known here: that is package shellparse.
package source

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// parser has the text that it reads beside it.
type parser struct {
	*syntax.Parser
	text strings.Reader
}

// parsers are costly to make and keep nothing of what they parsed.
var parsers = parsersOf(syntax.LangBash)

func parsersOf(lang syntax.LangVariant) sync.Pool {
	return sync.Pool{New: func() any { return &parser{Parser: syntax.NewParser(syntax.Variant(lang))} }}
}

// Parse returns the tree of src as bash reads it.
func Parse(src string) (*syntax.File, error) {
	if err := Check(src); err != nil {
		return nil, err
	}
	file, err := parseFile(src)
	if err == nil {
		if err = comments(src, file); err == nil {
			err = joined(src, file)
		}
		if err == nil {
			err = letters(src, file)
		}
		return file, err
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
	// Bash may find nothing wrong with these.
	if at := continuedComment(src); at >= 0 {
		return nil, endsInBackslash(src, at)
	}
	if at := middleJoint(src); at >= 0 {
		return nil, joint(src, at)
	}
	return nil, e
}

func parseFile(src string) (*syntax.File, error) { return parseWith(&parsers, src) }

func parseWith(pool *sync.Pool, src string) (file *syntax.File, err error) {
	p := pool.Get().(*parser)
	defer func() {
		if r := recover(); r != nil { // the parser is dropped with its state
			err = &Error{
				Code: "internal", Msg: fmt.Sprintf("the parser failed: %v", r),
				Hint: "write it in another way",
			}
			return
		}
		p.text.Reset("")
		pool.Put(p)
	}()
	p.text.Reset(src)
	return p.Parse(&p.text, "")
}
