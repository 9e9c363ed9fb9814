package vars

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/tool"
)

const (
	opening = "$VAR_REF{{"
	closing = "}}"
	maxName = 256 // bytes
)

// checkName refuses names that a reference could not hold (V-33).
func checkName(name string) error {
	if what := wrongWithName(name); what != "" {
		return &tool.Error{
			Code: "validation_error", Msg: fmt.Sprintf("variable name %q %s", name, what),
			Hint: "letters, digits, /, ., : and - are fine in a name",
		}
	}
	return nil
}

func wrongWithName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxName:
		return fmt.Sprintf("is longer than %d bytes", maxName)
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case strings.Contains(name, closing), strings.HasSuffix(name, "}"):
		return "holds }} or ends in }, which ends a reference"
	case strings.Contains(name, opening):
		return "holds the beginning of a reference"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "holds a control character"
	}
	return ""
}

// checkTags refuses tags that could not be told apart when stored.
func checkTags(tags []string) error {
	for _, t := range tags {
		if t == "" || !utf8.ValidString(t) || strings.ContainsFunc(t, unicode.IsControl) {
			return &tool.Error{Code: "validation_error", Msg: fmt.Sprintf("tag %q is empty or holds a control character", t), Hint: "use plain words as tags"}
		}
	}
	return nil
}

func joinTags(tags []string) string {
	if len(tags) == 0 {
		return ""
	}
	return "\n" + strings.Join(tags, "\n") + "\n"
}

func splitTags(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.Trim(s, "\n"), "\n")
}
