package audit

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// minSecret is the length below which a known value is not looked for: it would
// blank out ordinary text.
const minSecret = 6

// Redactor takes secrets out of text: values it was told, and what looks like
// one. Use it on everything that is logged, described or shown. It is safe for
// concurrent use, and redacting twice is redacting once.
//
// It is a net with holes: a secret that has no known form and was not named goes
// through. Not writing values is better, and what the audit does.
type Redactor struct {
	mu     sync.Mutex // guards values
	values map[string]bool
	known  atomic.Pointer[told]
}

// told are the values that a Redactor was told.
type told struct {
	*strings.Replacer
	lines []string // those of more than one line
}

// NewRedactor knows the patterns and these values.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{values: map[string]bool{}}
	r.Add(secrets...)
	return r
}

// Add makes more values known. Values shorter than six bytes are ignored.
func (r *Redactor) Add(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) >= minSecret {
			for _, form := range forms(s) {
				r.values[form] = true
			}
		}
	}
	// The longest first: a value may be the beginning of another.
	all := make([]string, 0, len(r.values))
	for s := range r.values {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(all))
	var lines []string
	for _, s := range all {
		pairs = append(pairs, s, mark("secret"))
		if strings.ContainsAny(s, breaks) {
			lines = append(lines, s)
		}
	}
	r.known.Store(&told{strings.NewReplacer(pairs...), lines})
}

// forms returns the spellings under which a value leaves in ordinary outputs.
func forms(s string) []string {
	quoted, _ := json.Marshal(s)
	all := []string{
		s, string(quoted[1 : len(quoted)-1]), url.QueryEscape(s), url.PathEscape(s),
		hex.EncodeToString([]byte(s)),
	}
	for _, enc := range []*base64.Encoding{
		base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding,
		base64.RawURLEncoding,
	} {
		all = append(all, enc.EncodeToString([]byte(s)))
	}
	return all
}

// String returns s without its secrets.
func (r *Redactor) String(s string) string {
	for {
		clean := r.pass(s)
		// What is left over beside a mark may be a secret by itself. This ends:
		// every change leaves less text outside of marks.
		if clean == s {
			return s
		}
		s = clean
	}
}

// pass applies everything once, to the text between marks only. Private keys come first: a value in one would
// be a mark that parts its begin from its end.
func (r *Redactor) pass(s string) string {
	for i, p := range patterns() {
		if p.hinted(s) {
			s = unmarked(s, p.apply)
		}
		if i == 0 {
			s = unmarked(s, r.known.Load().Replace)
		}
	}
	return s
}

const markBegin = "[redacted:"

func unmarked(s string, fn func(string) string) string {
	if !strings.Contains(s, markBegin) {
		return fn(s)
	}
	var b strings.Builder
	for s != "" {
		from, to := nextMark(s)
		b.WriteString(fn(s[:from]))
		b.WriteString(s[from:to])
		s = s[to:]
	}
	return b.String()
}

// nextMark finds the first mark; both are the length of s if there is none.
func nextMark(s string) (from, to int) {
	for from < len(s) {
		i := strings.Index(s[from:], markBegin)
		if i < 0 {
			break
		}
		from += i
		to = from + len(markBegin)
		for to < len(s) && (s[to] == '-' || 'a' <= s[to] && s[to] <= 'z') {
			to++
		}
		if to < len(s) && s[to] == ']' {
			return from, to + 1
		}
		from = to
	}
	return len(s), len(s)
}

func mark(name string) string { return markBegin + name + "]" }

// EnvSecrets picks the values of NAME=VALUE pairs whose name says that they are
// secret, to be told to a Redactor.
func EnvSecrets(environ []string) []string {
	var found []string
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		name = strings.ToUpper(name)
		for _, word := range []string{
			"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "API_KEY",
			"APIKEY", "PRIVATE_KEY", "ACCESS_KEY",
		} {
			if strings.Contains(name, word) && !strings.HasSuffix(name, "_FILE") {
				found = append(found, value)
				break
			}
		}
	}
	return found
}
