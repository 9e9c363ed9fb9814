package source

import (
	"reflect"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// joined refuses text that the parser reads differently once its lines are joined.
// Bash leaves out a backslash at the end of a line before it looks for words and
// operators; the parser looks at some of them first (&\⏎& is not && to it). A blank
// next to the joint ends a word for both, so that only other joints are tried.
func joined(src string, file *syntax.File) error {
	if !strings.Contains(src, "\\\n") {
		return nil
	}
	var kinds []byte
	var out strings.Builder
	from, first := 0, -1
	for i := 0; i+1 < len(src); i++ {
		if src[i] != '\\' {
			continue
		}
		if src[i+1] == '\\' && strings.HasPrefix(src[i+2:], "\\\n") {
			if kinds == nil {
				kinds = paint(src, file)
			}
			if kinds[i] < rawText {
				// The parser takes the third for the second again.
				return joint(src, i+2)
			}
		}
		if src[i+1] != '\n' {
			i++ // whatever it is, this backslash takes it
			continue
		}
		if kinds == nil {
			kinds = paint(src, file)
		}
		switch {
		case kinds[i] == backquotedText:
			return &Error{
				Code: "parser_difference", Msg: "a quoted line that ends in a backslash between backquotes",
				Hint: "use $(…)", At: place(src, i, i+1),
			}
		case kinds[i] == rawText:
			continue
		case !betweenWords(src, i) && first < 0:
			first = i
		}
		out.WriteString(src[from:i])
		from = i + 2
		i++
	}
	if first < 0 {
		return nil
	}
	out.WriteString(src[from:])
	again, err := parseFile(out.String())
	if err != nil || !alike(reflect.ValueOf(file.Stmts), reflect.ValueOf(again.Stmts)) {
		return joint(src, first)
	}
	return nil
}

func joint(src string, at int) error {
	return &Error{
		Code: "parser_difference",
		Msg:  "a line that ends in a backslash in the middle of a word or an operator",
		Hint: "break the line at a blank", At: place(src, at, at+1),
	}
}

// middleJoint returns the first joint that is not between words, without a tree to ask; -1 where there is none.
func middleJoint(src string) int {
	for i := 0; i+1 < len(src); i++ {
		if src[i] != '\\' {
			continue
		}
		if src[i+1] == '\n' && !betweenWords(src, i) {
			return i
		}
		i++
	}
	return -1
}

// betweenWords reports whether a blank or an end of the text is next to the
// backslash at i and the line feed behind it.
func betweenWords(src string, i int) bool {
	return i == 0 || i+2 == len(src) || strings.IndexByte(" \t\n", src[i-1]) >= 0 && !escaped(src, i-1) ||
		strings.IndexByte(" \t\n", src[i+2]) >= 0
}

// alike compares two parts of a tree without their places, and text without the
// joints in it.
func alike(a, b reflect.Value) bool {
	if a.Kind() != b.Kind() || a.Type() != b.Type() {
		return false
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return alike(a.Elem(), b.Elem())
	case reflect.Slice:
		if parts, ok := a.Interface().([]syntax.WordPart); ok {
			a, b = reflect.ValueOf(merged(parts)), reflect.ValueOf(merged(b.Interface().([]syntax.WordPart)))
		}
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !alike(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		if a.Type() == reflect.TypeFor[syntax.Pos]() {
			return true
		}
		for i := range a.NumField() {
			if !alike(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.String:
		return unjoined(a.String()) == unjoined(b.String())
	}
	return a.Equal(b)
}

// merged joins the literals that stand next to each other.
func merged(parts []syntax.WordPart) []syntax.WordPart {
	var out []syntax.WordPart
	for _, p := range parts {
		l, ok := p.(*syntax.Lit)
		if !ok {
			out = append(out, p)
			continue
		}
		text := unjoined(l.Value)
		if last, ok := lastPart(out).(*syntax.Lit); ok {
			last.Value += text
		} else if text != "" {
			out = append(out, &syntax.Lit{Value: text})
		}
	}
	return out
}

func lastPart(parts []syntax.WordPart) syntax.WordPart {
	if len(parts) == 0 {
		return nil
	}
	return parts[len(parts)-1]
}
