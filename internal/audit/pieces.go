package audit

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/route"
)

// Pieces redacts a text that comes in pieces, such as what a program prints. What is passed on is, joined, what
// [Redactor.String] makes of the whole text, or less.
//
// Text is passed on up to the end of a line behind which no secret goes on that began before it, so a line that has
// not ended is held back until it does, or until the text ends. A line that is too long to be held is left out.
// Where the text has holes, what is beside them is left out too.
func (r *Redactor) Pieces() route.Pieces { return &redacting{r: r, most: maxHeld} }

// maxHeld is how many bytes are held back at most.
const maxHeld = 64 << 10

// Behind a hole, text is passed on again after so many lines and words that no secret can go on through them.
const (
	soundLines = 3
	soundWords = 9
)

type redacting struct {
	r    *Redactor
	most int
	held string
	key  bool // held begins in a private key, whose mark was passed on
	lost bool // held begins somewhere: it is read, and not passed on
}

// Write takes a piece and returns what may be passed on.
func (p *redacting) Write(piece string) string {
	p.held += piece
	var out strings.Builder
	for p.skipKey() {
		n, text := p.ready()
		if n == 0 {
			break
		}
		if !p.lost {
			out.WriteString(text)
		}
		p.key = endsInKey(p.held[:n])
		p.held, p.lost = p.held[n:], false
		if !p.key {
			break
		}
	}
	if !p.key && len(p.held) > p.most {
		if !p.lost {
			out.WriteString(mark("long-line") + "\n")
		}
		p.held, p.lost = p.held[len(p.held)-p.most/2:], true
	}
	return out.String()
}

// Missed says that pieces are missing before the next one.
func (p *redacting) Missed() { p.held, p.key, p.lost = "", false, true }

// End returns what was held back, when nothing more comes.
func (p *redacting) End() string {
	rest := ""
	if p.skipKey() && !p.lost {
		rest = p.r.String(p.held)
	}
	p.held = ""
	return rest
}

// The lines around a private key.
var (
	keyBegin = lazyregexp.New(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	keyEnd   = lazyregexp.New(`-----END [A-Z0-9 ]*PRIVATE KEY-----`)
)

// longestEnd is the longest last line of a private key that is found.
const longestEnd = 256

// skipKey drops what is held of a private key, and reports whether its end was found.
func (p *redacting) skipKey() bool {
	if !p.key {
		return true
	}
	if at := keyEnd().FindStringIndex(p.held); at != nil {
		p.held, p.key = p.held[at[1]:], false
		return true
	}
	p.held = p.held[max(0, len(p.held)-longestEnd):]
	return false
}

func endsInKey(text string) bool {
	for {
		begin := keyBegin().FindStringIndex(text)
		if begin == nil {
			return false
		}
		text = text[begin[1]:]
		end := keyEnd().FindStringIndex(text)
		if end == nil {
			return true
		}
		text = text[end[1]:]
	}
}

// breaks end a line. A carriage return does: programs draw their progress with it.
const breaks = "\n\r"

// lineTries is how many ends of lines are looked at.
const lineTries = 8

// ready returns how much of what is held may be passed on, and how it reads.
func (p *redacting) ready() (n int, text string) {
	for range lineTries {
		end := len(p.held)
		if n > 0 {
			end = n - 1
		}
		if n = strings.LastIndexAny(p.held[:end], breaks) + 1; n == 0 {
			break
		}
		head := p.held[:n]
		if p.lost {
			if sound(head) && !p.r.goesOn(head) && !p.r.within(head) {
				return n, ""
			}
			continue
		}
		text = p.r.String(head)
		if endsInKey(head) {
			return n, text
		}
		last := text
		for from, to := nextMark(last); from < len(last); from, to = nextMark(last) {
			last = last[to:]
		}
		if !p.r.goesOn(head) && !p.r.goesOn(last) {
			return n, text
		}
	}
	return 0, ""
}

// sound reports whether a text that began somewhere ends outside of every secret: with enough lines and words, and
// none that could be of a private key.
func sound(text string) bool {
	lines := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(breaks, c) })
	if len(lines) <= soundLines || len(strings.Fields(text)) <= soundWords {
		return false
	}
	return !keyLike().MatchString(lastWords(text)) &&
		!keyLike().MatchString(strings.Join(lines[len(lines)-soundLines:], "\n"))
}

var keyLike = lazyregexp.New(`[A-Za-z0-9+/]{40}`)

// lastWords returns the end of a text, as long as a secret of a known form may be that goes on behind it.
func lastWords(text string) string {
	at := len(text)
	for range soundWords {
		word := strings.TrimRightFunc(text[:at], unicode.IsSpace)
		if at = strings.LastIndexFunc(word, unicode.IsSpace) + 1; at == 0 {
			break
		}
	}
	return text[at:]
}

// goesOn reports whether a secret, or what announces one, may begin in a text and go on behind it. The text
// ends with a line.
func (r *Redactor) goesOn(text string) bool {
	for _, v := range r.known.Load().lines {
		for n := min(len(v)-1, len(text)); n > 0; n-- {
			if strings.HasSuffix(text, v[:n]) {
				return true
			}
		}
	}
	words := lastWords(text)
	for _, b := range begins() {
		if b.hinted(words) && b.re.MatchString(words) {
			return true
		}
	}
	return false
}

// within reports whether a known secret of several lines may have begun before a text: its last line is one of
// the secret's.
func (r *Redactor) within(text string) bool {
	text = strings.TrimRight(text, breaks)
	last := text[strings.LastIndexAny(text, breaks)+1:]
	for _, v := range r.known.Load().lines {
		if strings.Contains(v, last) {
			return true
		}
	}
	return false
}

// begins are the patterns that go on behind the end of a line, as they are before it: they match a text at whose
// end such a match has begun. Private keys are not among them: see endsInKey.
var begins = sync.OnceValue(func() []pattern {
	var all []pattern
	for _, p := range patterns() {
		if p.name == keyPattern {
			continue
		}
		re, err := syntax.Parse(p.re.String(), syntax.Perl)
		if err != nil {
			panic("a pattern that was compiled does not parse: " + err.Error())
		}
		for _, b := range upToSpace(re) {
			all = append(all, pattern{name: p.name, hints: p.hints, fold: p.fold, re: regexp.MustCompile(b + `\z`)})
		}
	}
	return all
})

// upToSpace returns the beginnings of an expression that end in a part of it which matches the end of a line.
func upToSpace(re *syntax.Regexp) (all []string) {
	switch re.Op {
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpLiteral:
		if regexp.MustCompile(re.String()).MatchString("\n") {
			all = append(all, re.String())
		}
	case syntax.OpConcat:
		before := ""
		for _, sub := range re.Sub {
			for _, b := range upToSpace(sub) {
				all = append(all, before+b)
			}
			before += "(?:" + sub.String() + ")"
		}
	case syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
		for _, b := range upToSpace(re.Sub[0]) {
			all = append(all, "(?:"+re.Sub[0].String()+")*"+b)
		}
	default: // alternatives and groups
		for _, sub := range re.Sub {
			all = append(all, upToSpace(sub)...)
		}
	}
	return all
}
