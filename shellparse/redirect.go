package shellparse

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// stream is what a command reads as its standard input.
type stream struct {
	kind streamKind
	text string // of a here-document; of what is piped what is known of it, _ for the rest
	at   Pos
	own  bool // of this command alone, which sees it from its beginning
	// paths are the roots below which every line of the input names a file.
	paths []field
}

type streamKind int

const (
	inherited streamKind = iota
	piped                // output of another command, or a descriptor
	fromFile             // a file
	hereText             // known text
)

// redirects lists the files that redirections open, and the input they set.
func (w *walker) redirects(list []*syntax.Redirect, sc *scope) ([]File, stream) {
	var files []File
	var in stream
	for _, r := range list {
		stdin := r.N == nil || r.N.Value == "0"
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			in = w.heredoc(r, sc, in, stdin)
			continue
		case syntax.WordHdoc:
			f := w.single(r.Word, sc)
			if stdin {
				in = stream{kind: piped, text: f.skeleton, at: f.at}
				if f.known && !f.glob {
					in = stream{kind: hereText, text: f.text + "\n", at: f.at}
				}
			}
			continue
		}
		targets := w.fields([]*syntax.Word{r.Word}, sc)
		for _, t := range targets {
			files = append(files, w.redirectFiles(r, t, sc)...)
		}
		if stdin && (r.Op == syntax.RdrIn || r.Op == syntax.RdrInOut || r.Op == syntax.DplIn) {
			in = stream{kind: fromFile, at: w.pos(r)}
			if r.Op == syntax.DplIn || len(targets) == 1 && targets[0].fd {
				in.kind = piped // a descriptor: whatever was opened there
			}
		}
	}
	return files, in
}

func (w *walker) redirectFiles(r *syntax.Redirect, t field, sc *scope) []File {
	if t.fd {
		return nil
	}
	switch r.Op {
	case syntax.RdrIn:
		return w.file(t, Read, false, sc)
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		return w.file(t, Write, false, sc)
	case syntax.RdrInOut:
		return append(w.file(t, Read, false, sc), w.file(t, Write, false, sc)...)
	case syntax.DplOut, syntax.DplIn:
		w.nameArgument(r.Op.String(), t)
		digits := strings.TrimSuffix(t.text, "-")
		if _, err := strconv.Atoi(digits); t.known && (err == nil || digits == "") || t.number && strings.Trim(t.pat, "*") == "" {
			return nil
		}
		if r.Op == syntax.DplIn {
			return nil // <&word is a descriptor or an error
		}
		w.expandedTwice(r, t)
		return w.file(t, Write, false, sc)
	}
	w.fail(&Error{Code: "unsupported", Msg: "a redirection that is not known here: " + r.Op.String(), Hint: "use > or <", At: w.pos(r)})
	return nil
}

// expandedTwice refuses a word that changes when it is expanded: bash expands the
// file of >& once more after quotes, parameters and substitutions are gone, so
// that >& '$(id)' runs id and >& '~/x' is below the home directory.
func (w *walker) expandedTwice(r *syntax.Redirect, t field) {
	if !t.known {
		w.opaque(Opaque{Code: "dynamic_eval", Message: "bash expands the file name of >& twice, and this one is not known", Hint: "write > file 2>&1", At: w.pos(r)})
		return
	}
	if strings.ContainsAny(t.text, "$`\\'\"{*?[~") {
		w.fail(&Error{Code: "parser_difference", Msg: "bash expands the file name of >& twice", Hint: "write > file 2>&1", At: w.pos(r)})
	}
}

func (w *walker) heredoc(r *syntax.Redirect, sc *scope, in stream, stdin bool) stream {
	quoted := false
	for _, p := range r.Word.Parts {
		l, ok := p.(*syntax.Lit)
		quoted = quoted || !ok || strings.Contains(l.Value, `\`)
	}
	body := stream{kind: hereText, at: w.pos(r)}
	if !quoted && w.joinsDelimiter(r) {
		w.fail(&Error{Code: "parser_difference", Msg: "a backslash at the end of a here-document line next to its end", Hint: "quote the delimiter, or leave the backslash out", At: w.pos(r)})
	}
	if r.Hdoc != nil && !w.endsAtDelimiter(r) {
		w.fail(&Error{Code: "parser_difference", Msg: "a here-document that may end elsewhere", Hint: "quote the delimiter, and give it a line of its own", At: w.pos(r)})
	}
	if r.Hdoc != nil {
		e := expansion{w: w, sc: sc, at: w.pos(r)}
		for _, p := range r.Hdoc.Parts {
			if l, ok := p.(*syntax.Lit); ok {
				text := l.Value
				if !quoted {
					text = unescapeQuoted(text)
				}
				e.b.quoted(text)
				continue
			}
			e.quotedPart(p)
		}
		f := e.b.field("", body.at)
		body.text = f.text
		if !f.known || f.glob {
			body.kind = piped
		}
	}
	if !stdin {
		return in
	}
	return body
}

// joinsDelimiter reports whether a line that ends in a backslash decides where the
// here-document ends: bash joins such lines before it looks for the delimiter, the
// parser after.
func (w *walker) joinsDelimiter(r *syntax.Redirect) bool {
	from := int(r.Word.End().Offset())
	if i := strings.IndexByte(w.src[from:], '\n'); i >= 0 {
		from += i + 1
	}
	to := from + min(2, len(w.src)-from)
	if r.Hdoc != nil {
		to = max(int(r.Hdoc.End().Offset()), to)
	}
	delim := r.Word.Lit()
	body := strings.TrimSuffix(w.src[from:min(to, len(w.src))], delim)
	if strings.HasPrefix(body, "\\\n") || strings.HasSuffix(strings.TrimRight(body, "\t"), "\\\n") {
		return true
	}
	for _, line := range strings.Split(strings.ReplaceAll(body, "\\\n", ""), "\n") {
		if r.Op == syntax.DashHdoc {
			line = strings.TrimLeft(line, "\t")
		}
		if line == delim {
			return true
		}
	}
	return false
}

// endsAtDelimiter reports whether the parser ended the body in front of a line that
// is the delimiter and nothing else. It also ends it behind an expansion in the
// middle of a line.
func (w *walker) endsAtDelimiter(r *syntax.Redirect) bool {
	end := min(int(r.Hdoc.End().Offset()), len(w.src))
	start := strings.LastIndexByte(w.src[:end], '\n') + 1
	line, _, _ := strings.Cut(w.src[start:], "\n")
	if r.Op == syntax.DashHdoc {
		line = strings.TrimLeft(line, "\t")
	}
	return line == delimiter(r.Word)
}

// delimiter is the end of a here-document without its quotes.
func delimiter(word *syntax.Word) string {
	var b strings.Builder
	for _, p := range word.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			for i := 0; i < len(p.Value); i++ {
				if p.Value[i] == '\\' && i+1 < len(p.Value) {
					i++
				}
				b.WriteByte(p.Value[i])
			}
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				if l, ok := q.(*syntax.Lit); ok {
					b.WriteString(l.Value)
				}
			}
		}
	}
	return b.String()
}

// file is f as a file that a command uses, once for each directory that it may be
// relative to.
func (w *walker) file(f field, a Access, recursive bool, sc *scope) []File {
	if f.fd {
		return nil
	}
	one := File{Path: f.text, Known: f.known, Access: a, Recursive: recursive || f.tree, At: f.at, Glob: f.glob}
	if f.glob {
		one.Path = f.pat
		// Behind a pattern ".." leaves a directory that is not known.
		if i := max(strings.IndexAny(f.pat, "*?["), 0); strings.Contains(f.pat[i:]+"/", "/../") {
			one.Known, one.Glob, one.Path = false, false, f.text
		}
	}
	if !one.Known {
		return []File{one}
	}
	if one.Path == "" {
		return nil
	}
	if strings.HasPrefix(one.Path, "/") {
		return []File{one}
	}
	out := make([]File, 0, len(sc.dirs))
	for _, d := range sc.dirs {
		g := one
		if d.path == "" {
			g.Known = false
		} else {
			dir := d.path
			if g.Glob {
				dir = escapePattern(dir)
			}
			g.Path = dir + "/" + one.Path
		}
		g.OnlyIfMissing = d.missing
		out = append(out, g)
	}
	return out
}
