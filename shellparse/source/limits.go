package source

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits of one text. Text over one of them is refused with the limit named; no
// check is ever left out because of it.
const (
	maxBytes = 64 << 10
	maxDepth = 48     // open brackets at one place, and open braces
	maxUnary = 512    // unary operators in a row
	maxOpen  = 960    // open keywords
	MaxWords = 20_000 // words
	maxChain = 4_000  // characters | and &, which nest to the left
)

// Check refuses what must not reach the parser: it has no depth limit of its
// own, and it reads some control characters differently from bash.
func Check(src string) error {
	if len(src) > maxBytes {
		return &Error{
			Code: "too_large", Msg: fmt.Sprintf("command of %d bytes is longer than %d", len(src), maxBytes),
			Hint: "put the script in a file of the workspace and run that",
		}
	}
	for i, r := range src {
		if r >= ' ' && r < 0x7f || r == '\n' || r == '\t' {
			continue
		}
		switch {
		case r == utf8.RuneError && !validAt(src, i):
			return &Error{
				Code: "invalid_utf8", Msg: "command is not valid UTF-8", Hint: `write the byte as $'\xNN'`,
				At: place(src, i, i+1),
			}
		case strings.HasPrefix(src[i:], "\r\n"):
			// The parser leaves CR out, and bash makes it part of the last word.
			return &Error{
				Code: "parser_difference", Msg: "a line that ends in CR and LF",
				Hint: "end lines in LF alone", At: place(src, i, i+1),
			}
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029':
			// Control characters split words differently for different readers;
			// the others make a person read another line than the shell.
			return &Error{
				Code: "control_character", Msg: fmt.Sprintf("command holds the control character %U", r),
				Hint: `leave it out, or write it as $'\x…' where it is data`, At: place(src, i, i+utf8.RuneLen(r)),
			}
		}
	}
	if i := strings.Index(src, "$\\\n"); i >= 0 {
		// Bash joins the lines first: what follows belongs to the $.
		return &Error{
			Code: "parser_difference", Msg: "a line that ends in $ and a backslash",
			Hint: "write the expansion on one line", At: place(src, i, i+3),
		}
	}
	return depth(src)
}

func validAt(src string, i int) bool {
	_, n := utf8.DecodeRuneInString(src[i:])
	return n != 1
}

// depth counts what is open at each place. It does not know quotes, so a quoted bracket counts too: an opening
// one adds to the depth, a closing one hides a level. What is hidden so, [maxBytes] bounds.
func depth(src string) error {
	brackets, braces, run := 0, 0, 0
	words, chain := 0, 0
	inWord := false
	for i := 0; i < len(src); i++ {
		c := src[i]
		if 'a' <= c && c <= 'z' { // most are, and below it is found last
			run, inWord = 0, true
			continue
		}
		switch c {
		case ' ', '\n', '\t', ';':
			if inWord {
				words++
				inWord = false
			}
			if c != ' ' {
				run = 0
			}
			continue
		case '!', '-', '~', '+':
			run++ // unary operators nest too
			inWord = true
			if run > maxUnary {
				return tooDeep(src, i, maxUnary)
			}
			continue
		case '(', '[':
			if brackets++; brackets > maxDepth {
				return tooDeep(src, i, maxDepth)
			}
		case '{':
			if braces++; braces > maxDepth {
				return tooDeep(src, i, maxDepth)
			}
		case ')', ']':
			brackets = max(brackets-1, 0)
		case '}':
			braces = max(braces-1, 0)
		case '|', '&':
			chain++
		}
		run, inWord = 0, true
	}
	if chain > maxChain {
		return &Error{
			Code: "too_large", Msg: fmt.Sprintf("command has more than %d characters | and &", maxChain),
			Hint: "split the command",
		}
	}
	if words > MaxWords {
		return &Error{
			Code: "too_large", Msg: fmt.Sprintf("command has more than %d words", MaxWords),
			Hint: "split the command",
		}
	}
	return keywordDepth(src)
}

func tooDeep(src string, i, most int) error {
	return &Error{
		Code: "too_deep", Msg: fmt.Sprintf("command is nested deeper than %d levels", most),
		Hint: "split the command", At: place(src, i, i+1),
	}
}

// keywordDepth bounds what nests by words: if, while, case and the like.
func keywordDepth(src string) error {
	open := 0
	for i := 0; i < len(src); {
		if src[i] < 'c' || src[i] > 'w' { // no keyword begins so
			i++
			continue
		}
		j := i
		for j < len(src) && 'a' <= src[j] && src[j] <= 'z' {
			j++
		}
		switch src[i:j] {
		case "if", "while", "until", "for", "case", "select", "function", "time", "coproc", "elif":
			if open++; open > maxOpen {
				return &Error{
					Code: "too_deep", Msg: "command has too many nested statements",
					Hint: "split the command", At: place(src, i, j),
				}
			}
		case "fi", "done", "esac":
			open = max(open-1, 0)
		}
		i = max(j, i+1)
	}
	return nil
}

// place returns the position of src[from:to].
func place(src string, from, to int) Pos {
	line := strings.Count(src[:from], "\n")
	return Pos{
		Offset: int32(from), End: int32(to), Line: int32(line + 1),
		Col: int32(from - strings.LastIndexByte(src[:from], '\n')),
	}
}
