// Package front parses the front matter of a Markdown file, such as a SKILL.md.
//
// The form is that of skills in the wild. It looks like YAML, but often is not valid YAML:
//
//	---
//	name: commit
//	description: |
//	  Writes a commit message.
//	  Use when changes are staged.
//	argument-hint: [message] [files]
//	---
//	The text.
//
// A key begins in column 0, and every line that begins with neither a key nor # there continues the
// value before it. A [Field] gives its value as text (quotes and block scalars are undone) or as a
// list. Outside of quotes and block scalars, # begins a comment at the start of a value or line, and
// after a space; but in text only if a space follows too, so that "issue #3" stays. Anchors,
// aliases, tags and merge keys mean nothing here and stay text, so a value cannot expand. A byte
// order mark and CRLF are accepted; line numbers are those of the file.
//
//	m := front.Parse(text)            // of at most MaxFile bytes
//	name := m.Text("name")            // "" if there is none
//	tools, given := m.Get("allowed-tools")
//	list := tools.List(true)          // m.Body is what follows the front matter
//
// [Parse] has no error. If the front matter does not end, the file is all body, without fields,
// and [Matter].Closed is false. Of two fields with one key, Get and Text return the last. Lines
// before the first key are dropped. The time is linear, and callers bound the file ([MaxFile],
// [MaxMatter]). Values are not checked: that is package check.
package front

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of a SKILL.md. Loading refuses a file that exceeds them; checking reports it.
const (
	MaxFile   = 1 << 20  // bytes of the file
	MaxMatter = 64 << 10 // bytes in which the front matter must end
)

// Matter is a file, divided into front matter and body.
type Matter struct {
	Fields []Field
	// Closed reports whether the file begins with front matter that ends. If not, the whole file is body.
	Closed bool
	Body   string // with a line feed for each CRLF
	Line   int    // of the first line of Body, from 1
}

// Field is a key with the text after its colon.
type Field struct {
	Key  string
	Raw  string // with the lines that continue it
	Line int    // from 1
}

// Parse divides a file into front matter and body.
func Parse(file string) Matter {
	text := strings.TrimPrefix(file, "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	whole := Matter{Body: text, Line: 1}
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != "---" {
		return whole
	}
	m := Matter{Line: 1}
	var value strings.Builder
	keep := func() {
		if n := len(m.Fields); n > 0 {
			m.Fields[n-1].Raw = value.String()
		}
		value.Reset()
	}
	for more := true; more; {
		var line string
		line, rest, more = strings.Cut(rest, "\n")
		m.Line++
		if strings.TrimRight(line, " \t") == "---" {
			keep()
			m.Closed, m.Body, m.Line = true, rest, m.Line+1
			return m
		}
		key, said, is := keyOf(line)
		switch {
		case is:
			keep()
			m.Fields = append(m.Fields, Field{Key: key, Line: m.Line})
			value.WriteString(said)
		case strings.HasPrefix(line, "#"):
		case len(m.Fields) > 0:
			value.WriteString("\n" + line)
		}
	}
	return whole
}

// keyOf returns the key at the start of a line and the text after its colon.
func keyOf(line string) (key, value string, is bool) {
	if line == "" || strings.ContainsRune(" \t#-", rune(line[0])) {
		return "", "", false
	}
	key, value, is = strings.Cut(line, ":")
	key = strings.TrimSpace(key)
	return key, value, is && key != ""
}

// Get returns the last field with one of these keys.
func (m Matter) Get(keys ...string) (Field, bool) {
	for _, f := range slices.Backward(m.Fields) {
		if slices.Contains(keys, f.Key) {
			return f, true
		}
	}
	return Field{}, false
}

// Text returns the value of the last field with one of these keys, or "".
func (m Matter) Text(keys ...string) string {
	f, _ := m.Get(keys...)
	return f.Text()
}

// Text returns the value without its quotes and comments. Lines of a block scalar are joined as its header says, other
// lines with a space.
func (f Field) Text() string { return f.text(false) }

// text is Text. With all, a comment needs no space behind its #.
func (f Field) text(all bool) string {
	raw := f.begun()
	first, rest, _ := strings.Cut(raw, "\n")
	if folded, indent, is := blockOf(first); is {
		return block(rest, folded, indent)
	}
	raw = strings.TrimSpace(uncommented(raw, all))
	if raw != "" && (raw[0] == '"' || raw[0] == '\'') {
		return unquote(raw)
	}
	lines := strings.Split(raw, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return line == "" }), " ")
}

// begun returns the value without the comments before it. What kind of value it is shows only then: a list, a block
// scalar or quotes may begin below a comment.
func (f Field) begun() string {
	raw := strings.TrimSpace(f.Raw)
	for strings.HasPrefix(raw, "#") {
		_, raw, _ = strings.Cut(raw, "\n")
		raw = strings.TrimSpace(raw)
	}
	return raw
}

// uncommented removes the comments of a value that is no block scalar. Quotes count at its start, and at the start of
// an entry of [a, b].
func uncommented(raw string, all bool) string {
	if !strings.Contains(raw, "#") {
		return raw
	}
	var b strings.Builder
	flow := strings.HasPrefix(raw, "[")
	var quote byte                 // that is open
	last, line := byte(0), byte(0) // the last byte of the value, and of the line, that is no blank
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case quote == '"' && c == '\\', quote == '\'' && strings.HasPrefix(raw[i:], "''"):
			b.WriteByte(c) // the next byte does not end the quotes
			if i++; i == len(raw) {
				return b.String()
			}
			c = raw[i]
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && (last == 0 || flow && (last == '[' || last == ',')):
			quote = c
		case c == '#' && (line == 0 || blank(raw[i-1]) && (all || i+1 == len(raw) || blank(raw[i+1]))):
			end := strings.IndexByte(raw[i:], '\n')
			if end < 0 {
				return b.String()
			}
			i += end
			c = '\n'
		}
		b.WriteByte(c)
		switch {
		case c == '\n':
			line = 0
		case !blank(c):
			last, line = c, c
		}
	}
	return b.String()
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

// unquote removes quotes as YAML does. From a value that is not quoted correctly it removes only the outer quotes.
func unquote(raw string) string {
	var one [1]string // decoded as a list entry, so that nothing can follow the value
	if yaml.Unmarshal([]byte("- "+raw), &one) == nil {
		return one[0]
	}
	if n := len(raw); n > 1 && raw[n-1] == raw[0] {
		return raw[1 : n-1]
	}
	return raw
}

// blockOf reports whether a line begins a block scalar, whether it is folded (>) or literal (|), and the indentation
// that it names, or 0. The chomping indicator is ignored.
func blockOf(line string) (folded bool, indent int, is bool) {
	line = strings.TrimSpace(uncommented(line, true))
	if line == "" || line[0] != '|' && line[0] != '>' || strings.Trim(line[1:], "+-123456789") != "" {
		return false, 0, false
	}
	if digit := strings.Trim(line[1:], "+-"); digit != "" {
		indent = int(digit[0] - '0')
	}
	return line[0] == '>', indent, true
}

// block returns the text of a block scalar, whose lines are indented so far, or as far as the first if that is 0. A #
// before that column is a comment, which ends the text; so is each # that begins a line below it.
func block(text string, folded bool, indent int) string {
	var lines []string
	least, ended := -1, false
	for line := range strings.SplitSeq(text, "\n") {
		own := len(line) - len(strings.TrimLeft(line, " \t"))
		if own < len(line) {
			if indent == 0 {
				indent = own
			}
			if line[own] == '#' && (own < indent || ended) {
				ended = true
				continue
			}
			if least < 0 || own < least {
				least = own
			}
		}
		lines = append(lines, line)
	}
	var b strings.Builder
	for i, line := range lines {
		line = strings.TrimRight(line[min(max(least, 0), len(line)):], " \t")
		switch {
		case i == 0:
		case !folded || line == "":
			b.WriteByte('\n')
		case strings.TrimSpace(lines[i-1]) != "":
			b.WriteByte(' ')
		}
		b.WriteString(line)
	}
	return strings.TrimSpace(b.String())
}

// List returns the value as a list: [a, b], lines that begin with "-", or words separated by commas. With spaces,
// spaces separate words too. Text in round brackets is not split.
func (f Field) List(spaces bool) []string {
	raw := f.begun()
	if isItems(raw) {
		list := f.entries()
		for i, entry := range list {
			list[i] = Field{Raw: entry}.text(true)
		}
		return full(list)
	}
	text := f.text(true)
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text, spaces = text[1:len(text)-1], false
	}
	var list []string
	depth, from := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth = max(0, depth-1)
		case depth == 0 && (c == ',' || c == '\n' || spaces && (c == ' ' || c == '\t')):
			list = append(list, text[from:i])
			from = i + 1
		}
	}
	return full(append(list, text[from:]))
}

// entries returns the entries of a list of lines. A line without a dash, or with one that is deeper than the first,
// goes on with the entry before it.
func (f Field) entries() []string {
	var list []string
	first := 0 // column of the first dash
	for line := range strings.SplitSeq(f.Raw, "\n") {
		item := strings.TrimSpace(line)
		column := len(line) - len(strings.TrimLeft(line, " \t"))
		switch {
		case item == "" || item[0] == '#':
		case isItems(item) && (list == nil || column <= first):
			list, first = append(list, item[1:]), column
		case list != nil:
			list[len(list)-1] += "\n" + line
		}
	}
	return list
}

// isItems reports whether a value is a list of lines such as "- a".
func isItems(raw string) bool {
	return strings.HasPrefix(raw, "-") && (len(raw) == 1 || blank(raw[1]))
}

// full returns the entries that are not empty, without quotes.
func full(list []string) []string {
	out := []string{}
	for _, s := range list {
		s = strings.TrimSpace(s)
		if s != "" && (s[0] == '"' || s[0] == '\'') {
			s = unquote(s)
		}
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}
