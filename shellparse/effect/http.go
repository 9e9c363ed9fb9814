package effect

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// http is a request that deletes or replaces: its method says so. What this machine itself serves may be replaced:
// servers that are built here are tried out so. What they store is deleted like any other data.
func (r *reader) http() {
	method, target := r.method()
	switch method {
	case "DELETE":
		r.act(Destroys, method, target)
	case "PUT", "PATCH":
		elsewhere := func(w program.Word) bool { return !isHere(w) }
		if urls := r.urls(); len(urls) == 0 || slices.ContainsFunc(urls, elsewhere) {
			r.act(Changes, method, target)
		}
	}
}

// method returns the method of a request, and what looks like its URL.
func (r *reader) method() (method string, target program.Word) {
	before := ""
	for i, w := range r.Argv[1:] {
		text := w.Text
		switch {
		case before == "-X" || before == "--request" || before == "--method" || before == "--custom-request":
			if method = strings.ToUpper(text); r.unsure(w) {
				method = "DELETE"
			}
		case strings.HasPrefix(text, "-X"):
			method = strings.ToUpper(text[2:])
		case strings.HasPrefix(text, "--request=") || strings.HasPrefix(text, "--method="):
			method = strings.ToUpper(text[strings.IndexByte(text, '=')+1:])
		case len(text) > 1 && text[0] == '-' && text[1] != '-' && strings.HasSuffix(text, "X"):
			text = "-X" // a cluster: -sX DELETE
		case len(text) > 3 && text[0] == '-' && text[1] != '-' && strings.Contains(text, "X") && r.Name == "curl":
			method = strings.ToUpper(text[strings.IndexByte(text, 'X')+1:])
		case i == 0 && text == "DELETE":
			method = text
		case method == "" && text == "DELETE" && r.Name != "curl" && r.Name != "wget":
			method = text
		case strings.Contains(text, "/") || strings.Contains(text, ":"):
			target = w
		}
		before = text
	}
	if ops := r.words(); method == "" && r.takesMethod() && len(ops) > 1 && program.IsMethod(ops[0].Lit()) {
		method = strings.ToUpper(ops[0].Text)
	}
	if method == "" && len(r.Values["-T"]) > 0 && r.Name == "curl" {
		method = "PUT"
	}
	return method, target
}

// takesMethod reports whether the first of several operands is a method.
func (r *reader) takesMethod() bool {
	switch r.Name {
	case "http", "https", "xh", "xhs", "curlie":
		return true
	}
	return false
}

// urls returns those that are requested.
func (r *reader) urls() []program.Word {
	ops := r.words()
	if r.takesMethod() {
		if len(ops) > 1 && program.IsMethod(ops[0].Lit()) {
			ops = ops[1:]
		}
		ops = ops[:min(1, len(ops))]
	}
	return slices.Concat(ops, r.Values["--url"])
}

// isHere reports whether a URL is one of this machine, whatever a part behind its host is.
func isHere(w program.Word) bool {
	text := w.Text
	if !w.Known {
		text = w.Skeleton
	}
	if _, rest, ok := strings.Cut(text, "://"); ok {
		text = rest
	}
	if end := strings.IndexAny(text, "/?#"); end >= 0 {
		text = text[:end]
	}
	host := text[strings.LastIndexByte(text, '@')+1:]
	if ip, _, ok := strings.Cut(host, "]"); ok {
		host = strings.TrimPrefix(ip, "[")
	} else if host = before(host, ":"); host == "" && text != "" { // of httpie: the port alone
		return true
	}
	if host = strings.ToLower(host); host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && (a.IsLoopback() || a.IsUnspecified())
}
