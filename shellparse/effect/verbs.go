package effect

import (
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// operand is a word that is no option.
type operand struct {
	program.Word
	text string
	skip bool // it may be the value of the option in front of it, or no word at all
	any  bool // it may be anything
}

// line is the words of a command as patterns see them.
type line struct {
	r        *reader
	operands []operand
	flags    []string // as they stand, without values; the letters of clusters too
	whole    []string // every word
	help     bool
}

// verbs looks the words up in the lines of the tool.
func (r *reader) verbs() {
	l := r.line()
	if l.help {
		return
	}
	for i := range r.tool.lines {
		p := &r.tool.lines[i]
		n, ok := l.match(p)
		if !ok {
			continue
		}
		if p.does != shows {
			r.act(p.does, l.verb(n), l.target(n))
		}
		return
	}
	if r.tool.other != "" && len(l.operands) > 0 && !l.shows() {
		n := min(3, len(l.operands))
		r.act(r.tool.other, l.verb(n), l.target(n))
	}
}

// shows reports whether one of the first operands, or the last one, says that the command only shows.
func (l *line) shows() bool {
	for _, o := range slices.Backward(l.operands) {
		if !o.skip {
			if all.classes["infos"][o.text] {
				return true
			}
			break
		}
	}
	return slices.ContainsFunc(l.operands[:min(6, len(l.operands))], func(o operand) bool {
		return !o.skip && all.classes[shows][o.text]
	})
}

// line sorts the words into options and operands.
func (r *reader) line() *line {
	l := &line{r: r, operands: make([]operand, 0, len(r.Argv)-1)}
	takes, after := false, false
	end := false
	for i, w := range r.Argv[1:] {
		text := w.Text
		l.whole = append(l.whole, text)
		switch {
		case takes:
			takes, after = false, false
			continue
		case !end && w.Known && text == "--":
			end = true
			continue
		case !end && w.Known && len(text) > 1 && text[0] == '-':
			name, value, valued := strings.Cut(text, "=")
			if !valued && i+2 < len(r.Argv) && r.Argv[i+2].Is("false") { // as npm reads it
				value = "false"
			}
			if off[value] {
				after = !valued
				continue
			}
			if (name == "--help" || name == "-help") && !after {
				l.help = true
			}
			l.flags = append(l.flags, name)
			if name != text {
				l.flags = append(l.flags, text)
			}
			if text[1] != '-' && len(name) > 2 {
				for i := 1; i < len(name); i++ {
					l.flags = append(l.flags, "-"+name[i:i+1])
				}
			}
			takes = !valued && slices.Contains(r.tool.takes, name)
			after = !valued && !takes
			continue
		}
		if !w.Known && !w.Many && strings.HasPrefix(w.Skeleton, "-") && !end {
			l.flags = append(l.flags, before(w.Skeleton, "=")) // -j"$n": an option, whatever its value
			after = false
			continue
		}
		if !end {
			l.operands = append(l.operands, r.operand(w, after))
		}
		after = false
	}
	return l
}

// off are values that switch an option off: --dry-run=none of kubectl, --dry-run false of npm.
var off = words("false none no off 0")

func (r *reader) operand(w program.Word, after bool) operand {
	o := operand{Word: w, text: w.Text, skip: after}
	if r.tool.nocase {
		o.text = strings.ToLower(o.text)
	}
	if !w.Known {
		o.any = r.unsure(w)
		o.skip = o.skip || w.Many
		o.text = w.Skeleton
	}
	return o
}

// match reports whether the line is of a pattern, and behind which operand the pattern ends.
func (l *line) match(p *pattern) (n int, ok bool) {
	for _, c := range p.conditions {
		if l.has(c) == c.not {
			return 0, false
		}
	}
	// What is not known may be a verb that does harm, and is none that shows.
	return l.words(p.words, 0, 0, p.does != shows)
}

func (l *line) has(c condition) bool {
	switch c.kind {
	case '-':
		return slices.ContainsFunc(c.texts, func(t string) bool { return slices.Contains(l.flags, t) })
	case '~':
		return slices.ContainsFunc(l.whole, func(w string) bool {
			return strings.Contains(strings.ToLower(w), strings.ToLower(c.texts[0]))
		})
	}
	if len(l.operands) == 0 { // '$'
		return false
	}
	last := l.operands[len(l.operands)-1]
	return last.any || glob(c.texts[0], last.text)
}

// words matches the operands from i on.
func (l *line) words(tokens []token, i, depth int, any bool) (n int, ok bool) {
	if len(tokens) == 0 {
		return i, true
	}
	t := tokens[0]
	if t.many {
		for j := i; j <= len(l.operands) && j <= i+6; j++ {
			if n, ok := l.words(tokens[1:], j, depth, any); ok {
				return n, true
			}
			if j < len(l.operands) && all.classes[shows].matches(l.operands[j].text) && !l.operands[j].skip {
				return 0, false
			}
		}
		return 0, false
	}
	if i >= len(l.operands) {
		return 0, false
	}
	o := l.operands[i]
	noun := t.class != nil && l.noun(o.text, i) // schedule list, run services list
	if o.any && any && !t.known || t.matches(o.text) && !noun {
		if n, ok := l.words(tokens[1:], i+1, depth, any); ok {
			return n, true
		}
	}
	if o.skip && depth < 4 {
		return l.words(tokens, i+1, depth+1, any)
	}
	return 0, false
}

// noun reports whether a word that can be a verb is none here: one that shows follows it.
func (l *line) noun(word string, i int) bool {
	end := i + 2
	if all.classes[Changes][word] {
		end = i + 3
	}
	for _, o := range l.operands[i+1 : min(end, len(l.operands))] {
		if !o.skip && all.classes[shows][o.text] && !all.classes[Destroys][word] {
			return true
		}
	}
	return false
}

// verb returns what the operands in front of the n-th say, in words.
func (l *line) verb(n int) string {
	var words []string
	for _, o := range l.operands[:n] {
		words = append(words, o.Text)
	}
	if n == 0 && len(l.flags) > 0 {
		words = append(words, l.flags[0])
	}
	return strings.Join(words[max(0, len(words)-4):], " ")
}

func (l *line) target(n int) program.Word {
	if n < len(l.operands) {
		return l.operands[n].Word
	}
	return program.Word{}
}

// glob is [path.Match] in which * stands for a / too.
func glob(pattern, text string) bool {
	if !strings.ContainsAny(pattern, "*?[") {
		return pattern == text
	}
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x01"), strings.ReplaceAll(text, "/", "\x01"))
	return ok && err == nil
}
