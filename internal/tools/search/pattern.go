package search

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// maxPattern bounds the bytes of a pattern. The time of a match is linear in the path, whatever the pattern is.
const maxPattern = 1000

// compileGlob returns the regular expression of a glob, which matches a whole path.
func compileGlob(glob string, braces bool) (*regexp.Regexp, error) {
	text, err := globRegexp(glob, braces)
	if err != nil {
		return nil, err
	}
	return regexp.Compile("^(?s:" + text + ")$")
}

// globRegexp translates a glob into a regular expression over a relative path:
// * and ? stay within a name, ** crosses directories, and braces, where they are
// wanted, list alternatives. A glob that cannot be read is an error.
func globRegexp(glob string, braces bool) (string, error) {
	if len(glob) > maxPattern {
		return "", fmt.Errorf("pattern of %d characters is longer than %d", len(glob), maxPattern)
	}
	var b strings.Builder
	depth := 0
	for i := 0; i < len(glob); {
		switch c := glob[i]; {
		case strings.HasPrefix(glob[i:], "**/") && (i == 0 || glob[i-1] == '/'):
			b.WriteString("(?:.*/)?")
			i += 3
			continue
		case glob[i:] == "**" && i > 0 && glob[i-1] == '/':
			b.WriteString(".+")
			i += 2
			continue
		case glob == "**":
			b.WriteString(".*")
			i += 2
			continue
		case c == '*':
			for i < len(glob) && glob[i] == '*' {
				i++
			}
			b.WriteString("[^/]*")
			continue
		case c == '?':
			b.WriteString("[^/]")
		case c == '[':
			class, size, err := globClass(glob[i:])
			if err != nil {
				return "", err
			}
			b.WriteString(class)
			i += size
			continue
		case c == '{' && braces:
			depth++
			b.WriteString("(?:")
		case c == '}' && braces && depth > 0:
			depth--
			b.WriteString(")")
		case c == ',' && depth > 0:
			b.WriteString("|")
		case c == '\\':
			if i+1 == len(glob) {
				return "", fmt.Errorf("pattern %q ends with a backslash", glob)
			}
			i++
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		}
		i++
	}
	if depth > 0 {
		return "", fmt.Errorf("pattern %q has an open brace", glob)
	}
	return b.String(), nil
}

// globClass translates [a-z], [!a] and [^a] at the start of s, and returns how many bytes of s it took.
func globClass(s string) (class string, size int, err error) {
	i := 1
	b := strings.Builder{}
	b.WriteString("[")
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		b.WriteString("^/")
		i++
	}
	for first := true; i < len(s); first = false {
		switch c := s[i]; {
		case c == ']' && !first:
			b.WriteString("]")
			return b.String(), i + 1, nil
		case c == '[' && strings.HasPrefix(s[i:], "[:"):
			end := strings.Index(s[i:], ":]")
			if end < 0 {
				return "", 0, fmt.Errorf("pattern %q has an open character class", s)
			}
			b.WriteString(s[i : i+end+2])
			i += end + 2
		case c == '\\' && i+1 < len(s):
			if s[i+1] == '-' { // QuoteMeta leaves it, and it would make a range
				b.WriteString(`\-`)
			} else {
				b.WriteString(regexp.QuoteMeta(s[i+1 : i+2]))
			}
			i += 2
		case c == '-':
			b.WriteString("-")
			i++
		case c == '[' || c == ']' || c == '^' || c == '&' || c == '~':
			b.WriteString(`\` + string(c))
			i++
		default:
			b.WriteByte(c)
			i++
		}
	}
	return "", 0, fmt.Errorf("pattern %q has an open bracket", s)
}

// pathPattern matches paths relative to the root of a search. As in ripgrep, a pattern without a slash is matched
// against the name alone.
type pathPattern struct {
	re       *regexp.Regexp
	nameOnly bool
	hidden   bool // it names files that begin with a dot
	modules  bool // it names node_modules
}

func newPathPattern(glob string) (*pathPattern, error) {
	if glob == "" {
		return nil, badPattern(fmt.Errorf("the pattern is empty"))
	}
	p := &pathPattern{nameOnly: !strings.Contains(glob, "/")}
	trimmed := strings.TrimPrefix(strings.TrimPrefix(glob, "."), "/")
	if !strings.HasPrefix(glob, "/") && !strings.HasPrefix(glob, "./") {
		trimmed = glob
	}
	for _, seg := range strings.FieldsFunc(trimmed, func(r rune) bool { return r == '/' || r == '{' || r == ',' }) {
		if seg == ".." {
			return nil, &tool.Error{
				Code: "invalid_pattern", Msg: fmt.Sprintf("pattern %q holds ..", glob),
				Hint: "name the directory in path",
			}
		}
		p.hidden = p.hidden || strings.HasPrefix(seg, ".")
		p.modules = p.modules || strings.Contains(seg, "node_modules")
	}
	var err error
	if p.re, err = compileGlob(trimmed, true); err != nil {
		return nil, badPattern(err)
	}
	return p, nil
}

func badPattern(err error) error {
	return &tool.Error{
		Code: "invalid_pattern", Msg: "the pattern cannot be read: " + err.Error(),
		Hint: `* stays within a name, ** crosses directories, {a,b} lists alternatives, \ quotes`,
	}
}

func (p *pathPattern) match(rel string) bool {
	if p == nil {
		return true
	}
	if p.nameOnly {
		rel = rel[strings.LastIndexByte(rel, '/')+1:]
	}
	return p.re.MatchString(rel)
}
