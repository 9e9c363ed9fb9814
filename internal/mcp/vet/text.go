package vet

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
)

// Unseen says why no person can judge a text, so that none is asked: it has bytes that are no UTF-8, control or
// invisible characters, characters that turn its direction, or $VAR_REF. It returns "" if there is no such reason. The
// joiner U+200D and the selector U+FE0F pass, because emoji need them.
func Unseen(text string) string {
	if !utf8.ValidString(text) {
		return "has bytes that are no text"
	}
	for _, r := range text {
		if what := hidden(r); what != "" && r != '\u200d' && r != '\ufe0f' {
			return fmt.Sprintf("has %s (U+%04X)", what, r)
		}
	}
	if strings.Contains(text, "$VAR_REF") {
		return "has a reference to a variable of the session, $VAR_REF"
	}
	return ""
}

// hidden says what a character is that no person sees. It returns "" for all others.
func hidden(r rune) string {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return ""
	case unicode.IsControl(r):
		return "control characters"
	case r >= 0xE0000 && r <= 0xE007F:
		return "Unicode tags, which only a model reads"
	case r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x200E || r == 0x200F || r == 0x061C:
		return "characters that turn the direction of text"
	case unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) ||
		unicode.Is(unicode.Variation_Selector, r) || r == 0x2800:
		return "characters that nobody sees"
	}
	return ""
}

// seen returns a text without the characters that no person sees. Such a character splits a word for a pattern. A
// person and a model still read the whole word.
func seen(text string) string {
	return strings.Map(func(r rune) rune {
		if hidden(r) != "" {
			return -1
		}
		return r
	}, text)
}

//go:embed suspects.txt
var suspectsText string

// suspect is a pattern that descriptions of honest tools rarely contain.
type suspect struct {
	what    string
	pattern *regexp.Regexp
}

var suspects = sync.OnceValue(func() []suspect { return readSuspects(suspectsText) })

func readSuspects(text string) (all []suspect) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		what, pattern, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			panic(fmt.Sprintf("suspects.txt: %q has no tab", line))
		}
		all = append(all, suspect{what, regexp.MustCompile(pattern)})
	}
	return all
}

// misleads describes a part of a text that may be meant for the model and not for its user. It returns "" if there
// is none.
func misleads(text string) string {
	plain := strings.Join(strings.Fields(strings.ToLower(seen(text))), " ")
	for _, s := range suspects() {
		if at := s.pattern.FindString(plain); at != "" {
			return fmt.Sprintf("%s: %.80q", s.what, at)
		}
	}
	return ""
}

var (
	word      = lazyregexp.New(`[A-Za-z][A-Za-z0-9_-]*`)
	calledOne = lazyregexp.New(`\b([A-Za-z][A-Za-z0-9_-]*) (tool|server|function)\b`)
)

// mentions returns the words of a text that may name a tool or a server. A plain English word, such as Read, counts
// only if the text calls it a tool.
func mentions(text string) (names []string) {
	text = seen(text)
	for _, w := range word().FindAllString(text, -1) {
		if distinct(w) {
			names = append(names, w)
		}
	}
	for _, m := range calledOne().FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// distinct reports whether a word is written like a name: send_mail, WebFetch.
func distinct(w string) bool {
	return strings.ContainsAny(w, "_") || strings.ContainsFunc(w[1:], unicode.IsUpper) && w != strings.ToUpper(w)
}
