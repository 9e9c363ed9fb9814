package tool

import (
	"strings"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
)

// CommandLine returns the line with which a shell would start these words.
func CommandLine(argv ...string) string {
	words := make([]string, len(argv))
	for n, word := range argv {
		words[n] = quoted(word)
	}
	return strings.Join(words, " ")
}

var plain = lazyregexp.New(`^[\w@%+=:,./-]+$`)

// quoted returns a word as a shell reads it.
func quoted(word string) string {
	if plain().MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
