package vars

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/tool"
)

const (
	opening = "$VAR_REF{{"
	closing = "}}"
	maxName = 256 // bytes, of a tag too
	maxTags = 64
	maxDesc = 4 << 10 // bytes
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

// checkTags refuses tags that could not be told apart when stored, and more than lists can
// show.
func checkTags(tags []string) error {
	bad := func(format string, args ...any) error {
		return &tool.Error{
			Code: "validation_error", Msg: fmt.Sprintf(format, args...), Hint: "use few plain words as tags",
		}
	}
	if len(tags) > maxTags {
		return bad("%d tags, %d at most", len(tags), maxTags)
	}
	for _, t := range tags {
		switch {
		case len(t) > maxName:
			return bad("a tag has %d bytes, %d at most", len(t), maxName)
		case t == "" || !utf8.ValidString(t) || strings.ContainsFunc(t, unicode.IsControl):
			return bad("tag %q is empty or holds a control character", t)
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
