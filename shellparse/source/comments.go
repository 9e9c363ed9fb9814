package source

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// comments refuses each # that may begin a comment for one of bash and the parser
// and not for the other, and each comment that ends in a backslash: for bash the
// line ends there, and the parser (3.14.1) joins the next one to the command in
// front of the comment. The parser is not asked where comments are: a # begins one
// where a word begins, and what the parser took for data is in the tree.
func comments(src string, file *syntax.File) error {
	if strings.IndexByte(src, '#') < 0 {
		return nil
	}
	kinds := paint(src, file)
	for i := 0; i < len(src); i++ {
		if src[i] != '#' || kinds[i] >= quotedText {
			continue
		}
		begins, certain := beginsWord(src, i)
		if seen := kinds[i] != bareText; begins != seen || !certain {
			return &Error{
				Code: "parser_difference", Msg: "a # that may begin a comment or belong to a word",
				Hint: "quote the #, or put a blank in front of the comment", At: place(src, i, i+1),
			}
		}
		if !begins {
			continue
		}
		end := i + strings.IndexByte(src[i:]+"\n", '\n')
		if src[end-1] == '\\' {
			return endsInBackslash(src, end-1)
		}
		for i+1 < end && (kinds[i+1] == noText || kinds[i+1] == backquoted && src[i+1] != '`') {
			i++
		}
	}
	return nil
}

func endsInBackslash(src string, at int) error {
	return &Error{
		Code: "parser_difference", Msg: "a comment that ends in a backslash",
		Hint: "leave the backslash out: a comment ends with its line", At: place(src, at, at+1),
	}
}

// continuedComment returns where a line ends in a backslash behind a # that may begin a comment, without a tree to
// ask; -1 where no line does.
func continuedComment(src string) int {
	for i := 0; i < len(src); i++ {
		if src[i] != '#' {
			continue
		}
		if begins, certain := beginsWord(src, i); certain && !begins {
			continue
		}
		i += strings.IndexByte(src[i:]+"\n", '\n') - 1
		if src[i] == '\\' {
			return i
		}
	}
	return -1
}

// beginsWord reports whether bash begins a word at i: nothing is in front of it, or
// a blank, or an operator. Lines that a backslash joins are one. Behind a bracket or
// a backquote it depends on what these close.
func beginsWord(src string, i int) (begins, certain bool) {
	for i >= 2 && src[i-1] == '\n' && escaped(src, i-1) {
		i -= 2
	}
	if i == 0 {
		return true, true
	}
	switch src[i-1] {
	case ')', '`':
		return false, false
	case ' ', '\t', '\n', ';', '&', '|', '(', '<', '>':
		return !escaped(src, i-1), true
	}
	return false, true
}

// escaped reports whether a backslash that is none itself stands in front of i.
func escaped(src string, i int) bool {
	return (i-len(strings.TrimRight(src[:i], `\`)))%2 == 1
}

// What the tree says of a byte: it belongs to no text, so it is an operator or in a
// comment; the same between backquotes; it is text without quotes; or it is text in
// which # means nothing, and, of this, text in which a backslash means nothing.
const (
	noText = iota
	backquoted
	bareText
	quotedText
	rawText
	backquotedText // raw between backquotes
)

// paint says of each byte what it is in the tree.
func paint(src string, file *syntax.File) []byte {
	kinds := make([]byte, len(src))
	fill := func(n syntax.Node, kind byte) {
		from, to := min(int(n.Pos().Offset()), len(src)), min(int(n.End().Offset()), len(src))
		for i := from; i < to; i++ {
			kinds[i] = kind
		}
	}
	hdocs := map[*syntax.Word]byte{}
	open := []inText{{lit: bareText, raw: rawText}}
	syntax.Walk(file, func(n syntax.Node) bool {
		in := open[len(open)-1]
		switch n := n.(type) {
		case nil:
			open = open[:len(open)-1]
			return true
		case *syntax.Redirect:
			if n.Hdoc != nil {
				hdocs[n.Hdoc] = quotedText
				if quotedWord(n.Word) {
					hdocs[n.Hdoc] = in.raw
				}
			}
		case *syntax.Word:
			if kind, ok := hdocs[n]; ok {
				in.lit = kind
				fill(n, kind)
			}
		case *syntax.SglQuoted:
			fill(n, in.raw)
		case *syntax.DblQuoted, *syntax.ParamExp, *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.ExtGlob:
			in.lit = quotedText
			fill(n, in.lit)
		case *syntax.CmdSubst:
			kind := byte(noText)
			if n.Backquotes {
				kind, in.raw = backquoted, backquotedText
			}
			fill(n, kind)
			in.lit = bareText
		case *syntax.ProcSubst:
			fill(n, noText)
			in.lit = bareText
		case *syntax.Lit:
			fill(n, in.lit)
		}
		open = append(open, in)
		return true
	})
	return kinds
}

// inText is what a node that is open makes of the text in it.
type inText struct {
	lit byte // of a literal
	raw byte // of text in which a backslash means nothing
}

// quotedWord reports whether a part of a delimiter is quoted: then its here-document
// is not expanded.
func quotedWord(word *syntax.Word) bool {
	for _, p := range word.Parts {
		if l, ok := p.(*syntax.Lit); !ok || strings.Contains(unjoined(l.Value), `\`) {
			return true
		}
	}
	return false
}
