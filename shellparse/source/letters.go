package source

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// letters refuses text that the parser took for letters and in which bash runs
// something: the parser (3.14.1) knows no <(…) in ${x-<(…)}, in extended patterns and
// in the brackets of a regular expression.
//
// What may be added here: places where bash expands and the tree has a literal (a
// *syntax.Lit). A difference about comments belongs to comments.go, one about joined
// lines to joined.go, one that the text shows without a tree to [Check].
func letters(src string, file *syntax.File) error {
	if !strings.Contains(src, "`") && (!strings.Contains(src, "(") || !opens(src)) {
		return nil
	}
	var wrong *syntax.Lit
	var hdocs map[*syntax.Word]bool
	open := make([]bool, 1, 32) // whether <( means nothing, for each node that is open
	syntax.Walk(file, func(n syntax.Node) bool {
		plain := open[len(open)-1]
		switch n := n.(type) {
		case nil:
			open = open[:len(open)-1]
			return true
		case *syntax.Redirect:
			if n.Hdoc != nil {
				if hdocs == nil {
					hdocs = map[*syntax.Word]bool{}
				}
				hdocs[n.Hdoc] = quotedWord(n.Word)
			}
		case *syntax.Word:
			if raw, ok := hdocs[n]; ok {
				if raw {
					return false
				}
				plain = true
			}
		case *syntax.DblQuoted:
			plain = true
		case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ProcSubst:
			plain = false
		case *syntax.Lit:
			if wrong == nil && expands(n.Value, plain) {
				wrong = n
			}
		}
		open = append(open, plain)
		return true
	})
	if wrong == nil {
		return nil
	}
	from := min(int(wrong.Pos().Offset()), len(src))
	return &Error{
		Code: "parser_difference", Msg: "a substitution where only letters were read",
		Hint: "put it in front, in a variable, or quote the text", At: place(src, from, from),
	}
}

// opens reports whether a substitution can begin anywhere in a text, and be it across joined lines.
func opens(src string) bool {
	for _, begin := range []string{"$(", "${", "<(", ">(", "\\\n"} {
		if strings.Contains(src, begin) {
			return true
		}
	}
	return false
}

// expands reports whether text that no backslash quotes opens a substitution; plain is
// text in which <( opens none.
func expands(text string, plain bool) bool {
	text = unjoined(text)
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '`':
			return true
		case '$':
			if strings.HasPrefix(text[i+1:], "(") || strings.HasPrefix(text[i+1:], "{") {
				return true
			}
		case '<', '>':
			if !plain && strings.HasPrefix(text[i+1:], "(") {
				return true
			}
		}
	}
	return false
}

// unjoined is text without the backslashes at the end of a line that no other one quotes, and their line feeds.
func unjoined(text string) string {
	if !strings.Contains(text, "\\\n") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\' || i+1 == len(text):
			out.WriteByte(text[i])
		case text[i+1] == '\n':
			i++
		default:
			out.WriteString(text[i : i+2])
			i++
		}
	}
	return out.String()
}
