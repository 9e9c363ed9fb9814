package permission

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/sandboxd/sandboxd/guard"
)

// What may be added here: a notation for the specifier of file tools, and what a pattern
// means in it. Rules are brought into the three notations of [input.Path.Under] when they are
// loaded, so that nothing is resolved while a call is judged. Hard links and symlinks belong
// to package guard.

// addPath takes the specifier of a file tool. Paths come in three notations,
// which the input has as well: /abs, ~/below/home, ./below/where/the/session/began.
func (t table) addPath(ops []guard.Op, spec string) error {
	pattern, err := notation(spec)
	if err != nil {
		return err
	}
	dir, glob := splitGlob(pattern)
	for _, op := range ops {
		if glob == "" || glob == "**" {
			t.put(nil, "paths", string(op), dir)
		} else {
			re, err := globRegexp(dir, glob)
			if err != nil {
				return err
			}
			t.put(map[string]any{"regex": re}, "path_patterns", string(op), dir)
		}
		if t.effect == allow {
			continue
		}
		// A call on a whole tree matches rules for what is inside it; those for any depth
		// only from further up, or one for *.pem would hold for every search.
		if glob != "" && !strings.HasPrefix(glob, "**") {
			t.put(nil, "inside", string(op), dir)
		}
		for up := dir; up != parent(up); {
			up = parent(up)
			t.put(nil, "inside", string(op), up)
		}
	}
	return nil
}

// notation brings a specifier into the form that the input uses.
func notation(spec string) (string, error) {
	for _, s := range strings.Split(spec, "/") {
		if s == ".." {
			return "", errors.New("it can never match: paths are compared after .. is resolved")
		}
	}
	switch {
	case strings.ContainsAny(spec, `\{}`):
		return "", errors.New(
			`it can never match what it seems to: \ and {a,b} mean nothing here; write one rule for each`,
		)
	case strings.HasPrefix(spec, "$"):
		return "", errors.New("it can never match: variables are not expanded; want ~/x for the home directory")
	case strings.Contains(spec, "://"):
		return "", errors.New("it can never match: it is a URL and no path")
	case strings.HasPrefix(spec, "//"):
		return clean(spec[1:]), nil
	case spec == "~" || strings.HasPrefix(spec, "~/"):
		return clean(spec), nil
	case strings.HasPrefix(spec, "~"):
		return "", errors.New("it can never match: only ~ itself is known, not the homes of other users")
	case strings.HasPrefix(spec, "/"):
		return clean("." + spec), nil
	case strings.HasPrefix(spec, "./"):
		return clean(spec), nil
	case strings.Contains(strings.TrimSuffix(spec, "/"), "/"):
		return clean("./" + spec), nil
	}
	return clean("./**/" + spec), nil
}

// clean keeps the leading ./ that path.Clean drops.
func clean(p string) string {
	c := path.Clean(p)
	if strings.HasPrefix(p, ".") && c != "." {
		return "./" + c
	}
	return c
}

// parent returns the directory above; the top of a notation is its own parent.
func parent(p string) string {
	switch d := path.Dir(p); {
	case p == "." || p == "~" || p == "/":
		return p
	case strings.HasPrefix(p, "./") && d != ".":
		return "./" + d
	default:
		return d
	}
}

// splitGlob cuts a pattern at its first segment with a pattern character.
func splitGlob(p string) (dir, glob string) {
	segs := strings.Split(p, "/")
	for i, s := range segs {
		if strings.ContainsAny(s, "*?[") {
			dir = strings.Join(segs[:i], "/")
			if dir == "" {
				dir = "/"
			}
			return dir, strings.Join(segs[i:], "/")
		}
	}
	return p, ""
}

// globRegexp matches glob below dir and, as in a .gitignore, everything below
// what it matches.
func globRegexp(dir, glob string) (string, error) {
	var b strings.Builder
	b.WriteString(`\A` + regexp.QuoteMeta(strings.TrimSuffix(dir, "/")) + "/")
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case strings.HasPrefix(glob[i:], "**/"):
			b.WriteString(`(?:[^/]+/)*`)
			i += 2
		case strings.HasPrefix(glob[i:], "**"):
			b.WriteString(`.*`)
			i++
		case c == '*':
			b.WriteString(`[^/]*`)
		case c == '?':
			b.WriteString(`[^/]`)
		case c == '[':
			end := strings.IndexByte(glob[i:], ']')
			if end < 2 {
				return "", fmt.Errorf("the bracket in %q is not closed", glob)
			}
			set, err := globSet(glob[i+1 : i+end])
			if err != nil {
				return "", fmt.Errorf("pattern %q: %w", glob, err)
			}
			b.WriteString(set)
			i += end
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	b.WriteString(`(?:/.*)?\z`)
	re := "(?s)" + b.String()
	if _, err := regexp.Compile(re); err != nil {
		return "", fmt.Errorf("pattern %q: %w", glob, err)
	}
	return re, nil
}

// globSet is a bracket as a class of a regular expression. As in a .gitignore, ! and ^ turn it round, and it never
// matches a slash.
func globSet(text string) (string, error) {
	if strings.HasPrefix(text, "[:") {
		return "", errors.New("classes such as [[:alpha:]] are not known")
	}
	var b strings.Builder
	char := func(r rune) string {
		if r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return string(r)
		}
		return fmt.Sprintf(`\x{%x}`, r)
	}
	add := func(lo, hi rune) {
		switch {
		case lo == hi:
			b.WriteString(char(lo))
		case lo < hi:
			b.WriteString(char(lo) + "-" + char(hi))
		}
	}
	begin := "["
	set := []rune(text)
	not := set[0] == '!' || set[0] == '^'
	if not {
		set, begin = set[1:], "[^/"
	}
	for i := 0; i < len(set); i++ {
		lo, hi := set[i], set[i]
		if i+2 < len(set) && set[i+1] == '-' {
			hi = set[i+2]
			i += 2
		}
		switch {
		case lo > hi:
			return "", fmt.Errorf("the range %c-%c is empty", lo, hi)
		case not || hi < '/' || lo > '/':
			add(lo, hi)
		default:
			add(lo, '/'-1)
			add('/'+1, hi)
		}
	}
	if b.Len() == 0 {
		return "", errors.New("a bracket matches nothing")
	}
	return begin + b.String() + "]", nil
}
