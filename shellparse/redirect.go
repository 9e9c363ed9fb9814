package shellparse

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxd/sandboxd/shellparse/program"
	"github.com/sandboxd/sandboxd/shellparse/source"
)

// redirects lists the files that redirections open, and the input they set.
func (w *walker) redirects(list []*syntax.Redirect, sc *scope) ([]File, program.Input) {
	var files []File
	var in program.Input
	for _, r := range list {
		stdin := r.N == nil || r.N.Value == "0"
		if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
			// Bash gives the variable the number of the descriptor.
			w.unknownValue(sc, variableOf(strings.Trim(r.N.Value, "{}")), w.pos(r))
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			in = w.heredoc(r, sc, in, stdin)
			continue
		case syntax.WordHdoc:
			f := w.assignValue(r.Word, sc)
			if stdin {
				in = program.Input{Kind: program.Piped, Text: f.Skeleton, At: f.At}
				if !f.Known {
					in.Source = w.source(r.Word)
				}
				if f.Known && !f.Glob {
					in = program.Input{Kind: program.HereText, Text: f.Text + "\n", At: f.At}
				}
				continue
			}
			w.holds(r, f.Text+"\n", f.Known && !f.Glob, w.source(r.Word))
			continue
		}
		if src := w.source(r.Word); (r.Op == syntax.DplIn || r.Op == syntax.DplOut) && len(src) > 1 && src[0] == '-' {
			w.fail(&Error{
				Code: "parser_difference", Msg: "a descriptor that is closed, with a word at it",
				Hint: "put a blank behind " + r.Op.String() + "-", At: w.pos(r),
			})
		}
		if r.Op == syntax.DplOut && program.AllDigits(r.Word.Lit()) {
			continue // 2>&1
		}
		targets := w.fields([]*syntax.Word{r.Word}, sc, true)
		from := len(files)
		for _, t := range targets {
			files = w.redirectFiles(files, r, t, sc)
		}
		if r.Op == syntax.DplIn {
			targets = w.opened(targets)
		} else {
			w.opens(r, files[from:])
		}
		if stdin && (r.Op == syntax.RdrIn || r.Op == syntax.RdrInOut || r.Op == syntax.DplIn) {
			in = program.Input{Kind: program.FromFile, At: w.pos(r), Files: targets}
			if r.Op == syntax.DplIn || len(targets) == 1 && targets[0].Fd {
				in.Kind = program.Piped // a descriptor may have anything open
			}
			if src := w.source(r.Word); r.Op == syntax.DplIn && strings.Contains(src, "[") {
				in.Source = src // of a coprocess
			}
			if len(targets) == 1 && targets[0].Given != "" {
				in = program.Input{Kind: program.HereText, Text: targets[0].Given, At: in.At}
			}
			if text, ok := w.held(targets); ok && r.Op == syntax.DplIn {
				in = program.Input{Kind: program.HereText, Text: text, At: in.At}
			}
		}
	}
	return files, in
}

// connection reports whether a path is one that bash itself connects to when it stands in a redirection.
func connection(path string) bool {
	path = strings.TrimLeft(path, `"'`)
	return strings.HasPrefix(path, "/dev/tcp/") || strings.HasPrefix(path, "/dev/udp/")
}

// fromHost is what a connection gives.
var fromHost = Run{From: "download", Part: "/dev/tcp"}

// opens remembers the files that a redirection opens under a number above 2 or under {NAME}: nothing says how long
// they stay open.
func (w *walker) opens(r *syntax.Redirect, files []File) {
	for _, f := range files {
		w.connected = w.connected || f.Access == Read && connection(f.Path)
	}
	if r.N == nil || len(r.N.Value) == 1 && r.N.Value < "3" || len(w.open) == maxWritten {
		return
	}
	if w.open == nil {
		w.open = map[string][]File{}
	}
	if n := r.N.Value; len(w.open[n]) < maxWritten {
		w.open[n] = append(w.open[n], files...)
	}
}

// opened returns the files that may be open under a descriptor: of a number that is not known, all of them.
func (w *walker) opened(descriptors []program.Word) (files []program.Word) {
	for _, d := range descriptors {
		n := strings.TrimSuffix(d.Lit(), "-")
		for _, key := range slices.Sorted(maps.Keys(w.open)) {
			if n != "" && n != key {
				continue
			}
			for _, f := range w.open[key] {
				files = append(files, program.Word{Text: f.Path, Known: f.Known && !f.Glob, At: d.At})
			}
		}
	}
	return files
}

// mayFail reports whether a redirection opens a file, which may not be there.
func mayFail(redirs []*syntax.Redirect) bool {
	for _, r := range redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			continue
		case syntax.DplIn, syntax.DplOut:
			if lit := r.Word.Lit(); lit == "1" || lit == "2" || lit == "0" || lit == "-" {
				continue
			}
		}
		if r.Word.Lit() != "/dev/null" {
			return true
		}
	}
	return false
}

// feeding adds the redirections of a statement that have a substitution for input to those around it, until the
// function that it returns is called.
func (w *walker) feeding(list []*syntax.Redirect) (end func()) {
	around := w.fed
	for _, r := range list {
		switch r.Op {
		case syntax.RdrIn, syntax.RdrInOut, syntax.WordHdoc, syntax.Hdoc, syntax.DashHdoc:
			if substitutes(r) {
				w.fed = spanned(w.fed, w.pos(r))
			}
		}
	}
	return func() { w.fed = around }
}

func substitutes(r *syntax.Redirect) (found bool) {
	syntax.Walk(r, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			found = true
		}
		return !found
	})
	return found
}

// spanned returns the text from the first to the last of two places. A zero place is none.
func spanned(a, b Pos) Pos {
	switch {
	case a.End == 0:
		return b
	case b.End == 0:
		return a
	case b.Offset < a.Offset:
		a, b = b, a
	}
	a.End = max(a.End, b.End)
	return a
}

func (w *walker) redirectFiles(to []File, r *syntax.Redirect, t program.Word, sc *scope) []File {
	if t.Fd {
		return to
	}
	switch r.Op {
	case syntax.RdrIn:
		return w.addFile(to, t, Read, false, sc)
	case syntax.RdrOut, syntax.RdrClob, syntax.RdrAll:
		return w.emptied(to, t, sc)
	case syntax.AppOut, syntax.AppAll:
		t.Keeps = true
		return w.addFile(to, t, Write, false, sc)
	case syntax.RdrInOut:
		t.Keeps = true
		return w.addFile(w.addFile(to, t, Read, false, sc), t, Write, false, sc)
	case syntax.DplOut, syntax.DplIn:
		w.nameArgument(r.Op.String(), t)
		digits := strings.TrimSuffix(t.Text, "-")
		if _, err := strconv.Atoi(digits); t.Known && (err == nil || digits == "") ||
			t.Number && strings.Trim(t.Pat, "*") == "" {
			return to
		}
		if r.Op == syntax.DplIn {
			return to // <&word is a descriptor or an error
		}
		w.expandedTwice(r, t)
		return w.emptied(to, t, sc)
	}
	w.fail(&Error{
		Code: "unsupported", Msg: "a redirection that is not known here: " + r.Op.String(),
		Hint: "use > or <", At: w.pos(r),
	})
	return to
}

// emptied adds a file that the shell empties before the command begins.
func (w *walker) emptied(to []File, t program.Word, sc *scope) []File {
	from := len(to)
	to = w.addFile(to, t, Write, false, sc)
	for i := range to[from:] {
		to[from+i].First = true
	}
	return to
}

// expandedTwice refuses a word that changes when it is expanded: bash expands the
// file of >& once more after quotes, parameters and substitutions are gone, so
// that >& '$(id)' runs id and >& '~/x' is below the home directory.
func (w *walker) expandedTwice(r *syntax.Redirect, t program.Word) {
	if !t.Known {
		w.opaque(Opaque{
			Code:    "dynamic_eval",
			Message: "bash expands the file name of >& twice, and this one is not known", Hint: "write > file 2>&1",
			At: w.pos(r),
		})
		return
	}
	if strings.ContainsAny(t.Text, "$`\\'\"{*?[~") {
		w.fail(&Error{
			Code: "parser_difference", Msg: "bash expands the file name of >& twice",
			Hint: "write > file 2>&1", At: w.pos(r),
		})
	}
}

func (w *walker) heredoc(r *syntax.Redirect, sc *scope, in program.Input, stdin bool) program.Input {
	quoted := false
	for _, p := range r.Word.Parts {
		l, ok := p.(*syntax.Lit)
		quoted = quoted || !ok || strings.Contains(l.Value, `\`)
	}
	body := program.Input{Kind: program.HereText, At: w.pos(r)}
	if e := source.Heredoc(w.src, r, quoted); e != nil {
		e.At = w.pos(r)
		w.fail(e)
	}
	if r.Hdoc != nil {
		e := expansion{w: w, sc: sc, at: w.pos(r)}
		for _, p := range r.Hdoc.Parts {
			if l, ok := p.(*syntax.Lit); ok {
				text := l.Value
				if !quoted {
					text = source.UnescapeDouble(text)
				}
				e.b.quoted(text)
				continue
			}
			e.quotedPart(p)
		}
		f := e.b.field("", body.At)
		body.Text = f.Text
		if !f.Known || f.Glob {
			body.Kind = program.Piped
		}
		if !f.Known {
			body.Text, body.Source = f.Skeleton, w.source(r.Hdoc)
		}
	}
	if !stdin {
		w.holds(r, body.Text, body.Kind == program.HereText, body.Source)
		return in
	}
	return body
}

// holds remembers a text of the line that is open under another number than 0, as if it were written into a file.
func (w *walker) holds(r *syntax.Redirect, text string, known bool, source string) {
	f := File{Path: "/dev/fd/" + strings.Trim(r.N.Value, "{}"), Known: r.N.Value[0] != '{', Access: Read, At: w.pos(r)}
	if !f.Known {
		f.Path = "/dev/fd/$" + strings.Trim(r.N.Value, "{}")
	}
	w.opens(r, []File{f})
	if known {
		w.writesText(f.Path, text, false)
		return
	}
	run := Run{From: "text", Part: "the line"}
	values, ok := w.ofValues(source)
	run.strengthen(values, ok)
	for _, x := range w.inside {
		run.strengthen(x.Run, within(x.at, w.pos(r)))
	}
	w.keepsMade([]string{f.Path}, run, true)
}

// held returns the text of the line that is open under a descriptor, if nothing else may be.
func (w *walker) held(opened []program.Word) (text string, ok bool) {
	if len(opened) != 1 || !strings.HasPrefix(opened[0].Text, "/dev/fd/") {
		return "", false
	}
	texts, made := w.written[opened[0].Text], w.made[opened[0].Text]
	if len(texts) != 1 || made.From != "" {
		return "", false
	}
	return texts[0], true
}

// mayBeDots reports whether a part of a pattern may stand for "." or "..": what it
// is made of is empty, or a shell that matches them expands it.
func mayBeDots(pattern string) bool {
	for _, part := range strings.Split(pattern, "/") {
		if rest := strings.ReplaceAll(part, "*", ""); rest != part && (rest == "." || rest == "..") {
			return true
		}
	}
	return false
}

// file returns f as a file that a command uses, once for each directory from which it may be relative.
func (w *walker) file(f program.Word, a Access, recursive bool, sc *scope) []File {
	return w.addFile(nil, f, a, recursive, sc)
}

// addFile appends to a list what file returns.
func (w *walker) addFile(to []File, f program.Word, a Access, recursive bool, sc *scope) []File {
	if f.Fd {
		return to
	}
	one := File{
		Path: f.Text, Known: f.Known, Access: a, Recursive: recursive || f.Tree, At: f.At, Glob: f.Glob,
		Guess: f.Guess, Keeps: f.Keeps || recursive || f.Tree,
		Makes: f.Makes,
	}
	if f.Glob {
		one.Path = f.Pat
		readable := true
		if w.anyCase {
			one.Path, readable = eitherCase(f.Pat)
		}
		// After a pattern, ".." leaves an unknown directory.
		i := max(strings.IndexAny(f.Pat, "*?["), 0)
		if strings.Contains(f.Pat[i:]+"/", "/../") || mayBeDots(f.Pat) || !readable {
			one.Known, one.Glob, one.Path = false, false, f.Text
		}
	}
	if !one.Known {
		return append(to, one)
	}
	if one.Path == "" {
		return to
	}
	if strings.HasPrefix(one.Path, "/") {
		return append(to, one)
	}
	for _, d := range sc.dirs {
		g := one
		if d.path == "" {
			g.Known = false
		} else {
			dir := d.path
			if g.Glob {
				dir = program.EscapePattern(dir)
			}
			g.Path = dir + "/" + one.Path
		}
		g.OnlyIfMissing = d.missing
		to = append(to, g)
	}
	return to
}

// eitherCase returns a pattern that matches all that pat does where the case of letters does not count: a set of
// characters becomes any character. A name of the path that has no pattern stays as it is, as in bash. It returns
// false for a set that it does not read.
func eitherCase(pat string) (string, bool) {
	names := strings.Split(pat, "/")
	for i, name := range names {
		if !program.LivePattern(name) && !strings.Contains(name, "[") {
			continue
		}
		var b strings.Builder
		for j := 0; j < len(name); j++ {
			switch c := name[j]; {
			case c == '[':
				from := j + 2 // a ] that is the first one of a set belongs to it
				if from < len(name) && (name[j+1] == '!' || name[j+1] == '^') {
					from++
				}
				n := strings.IndexByte(name[min(from, len(name)):], ']')
				if n < 0 || strings.ContainsAny(name[j+1:from+n], `[\`) {
					return "", false
				}
				b.WriteByte('?')
				j = from + n
			case c == '\\' && j+1 < len(name):
				b.WriteString(name[j : j+2])
				j++
			case c|0x20 >= 'a' && c|0x20 <= 'z':
				b.WriteString("[" + string(c|0x20) + string(c&^0x20) + "]")
			default:
				b.WriteByte(c)
			}
		}
		names[i] = b.String()
	}
	return strings.Join(names, "/"), true
}
