package egress

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// methods are those that every server knows.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// doubtful says why a server may take a request for another one than a rule does, and what to do
// about it. The path is decoded.
func doubtful(method, path string) (reason, hint string) {
	upper := strings.ToUpper(method)
	switch {
	case method != upper && slices.Contains(methods, upper):
		return "the method is not in upper case", "write " + upper
	case strings.HasPrefix(path, "//"):
		return "the path begins with //", "begin it with one slash"
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
		return "the path has a control character or a backslash in it", "leave it out"
	}
	for part := range strings.SplitSeq(path, "/") {
		if part, _, _ = strings.Cut(part, ";"); part == "." || part == ".." {
			return "the path has . or .. in it", "write the path that it leads to"
		}
	}
	return "", ""
}

// Plain returns an address whose path a rule and the host read in the same way, or why there is none.
func Plain(u *url.URL) (*url.URL, error) {
	if reason, hint := doubtful(http.MethodGet, u.Path); reason != "" {
		return nil, fmt.Errorf("%s; %s", reason, hint)
	}
	plain := *u
	plain.RawPath = plainPath(u.EscapedPath())
	return &plain, nil
}

// plainPath writes an escaped path in the one way of RFC 3986 6.2.2: what need not be escaped is
// not, and escapes are in upper case.
func plainPath(escaped string) string {
	if !strings.Contains(escaped, "%") {
		return escaped
	}
	var out strings.Builder
	for i := 0; i < len(escaped); i++ {
		if escaped[i] != '%' || i+2 >= len(escaped) {
			out.WriteByte(escaped[i])
			continue
		}
		high, low := strings.IndexByte(hexDigits, escaped[i+1]|0x20), strings.IndexByte(hexDigits, escaped[i+2]|0x20)
		if high < 0 || low < 0 { // can't happen: it was parsed
			out.WriteByte('%')
			continue
		}
		if c := byte(high<<4 | low); unreserved(c) {
			out.WriteByte(c)
		} else {
			out.WriteString(strings.ToUpper(escaped[i : i+3]))
		}
		i += 2
	}
	return out.String()
}

const hexDigits = "0123456789abcdef"

func unreserved(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("-._~", c) >= 0
}

// overrides reports whether a server may take the method or the path of a request from a header,
// which no rule sees. Some servers read _ as -.
func overrides(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	return slices.Contains([]string{
		"x-http-method-override", "x-method-override", "x-http-method", "x-original-url", "x-rewrite-url",
	}, name)
}
