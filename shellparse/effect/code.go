package effect

import (
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// needle is a part of code, and what it does.
type needle struct{ does, part string }

// code looks at the code that an interpreter is given in its words or on its input.
func (r *reader) code(language string) {
	module, before := false, ""
	for i, w := range r.Argv[1:] {
		text := w.Text
		switch {
		case takesCode(before):
			r.codeText(language, text)
		case len(text) > 2 && text[0] == '-' && text[1] != '-' && strings.ContainsRune("ceErp", rune(text[1])):
			r.codeText(language, text[2:])
		case strings.HasPrefix(text, "--eval=") || strings.HasPrefix(text, "--print=") || strings.HasPrefix(text,
			"--execute="):
			r.codeText(language, text[strings.IndexByte(text, '=')+1:])
		case before == "-m" && language == "python":
			module = true
			r.inside(text, r.Argv[i+1:])
		}
		if before = text; module {
			break
		}
	}
	take := func(in *reader, text string) { in.codeText(language, text) }
	if len(r.Operands) > 0 && !module {
		r.script()
		r.feed(r.Operands[0], true, take)
		r.codeText(language, r.Operands[0].Given)
	}
	if len(r.Operands) == 0 || r.Operands[0].Is("-") {
		r.codeText(language, r.input())
		for _, w := range r.In.Files {
			r.feed(w, true, take)
		}
	}
}

// script: a script of a name that is known does what that program does (php artisan, python manage.py).
func (r *reader) script() {
	first := r.Operands[0]
	if (r.Name == "bun" || r.Name == "deno") && !strings.ContainsAny(first.Text, "./") {
		return // a subcommand
	}
	for i, w := range r.Argv {
		if i > 0 && w.At == first.At && w.Text == first.Text && first.Known {
			r.inside(base(first.Text), r.Argv[i:])
			return
		}
	}
}

// takesCode reports whether an option is one whose value is code: -c, -e, a cluster that ends in it.
func takesCode(option string) bool {
	switch option {
	case "--eval", "--print", "--execute", "-Command", "-command", "-EncodedCommand", "eval":
		return true
	}
	return len(option) > 1 && len(option) < 6 && option[0] == '-' && option[1] != '-' &&
		strings.ContainsRune("ceEprRB", rune(option[len(option)-1]))
}

func (r *reader) codeText(language, text string) {
	if text == "" {
		return
	}
	r.opened(language, text)
	for _, of := range []string{language, "*"} {
		for _, n := range all.code[of] {
			if holds(text, n.part) {
				r.out.Code = append(r.out.Code, Code{Does: n.does, Part: strings.TrimSpace(n.part)})
				return
			}
		}
	}
}

// holds reports whether code has this part, and not in the middle of a name.
func holds(text, part string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], part)
		if i < 0 {
			return false
		}
		at, end := from+i, from+i+len(part)
		before := at == 0 || !name(part[0]) || !name(text[at-1])
		after := end == len(text) || !name(part[len(part)-1]) || !name(text[end])
		if before && (after || strings.HasSuffix(part, "exec") || strings.HasSuffix(part, "spawn") ||
			strings.HasSuffix(part, "popen")) {
			return true
		}
		from = at + 1
	}
}

func name(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// mongoParts are what a script of a document store calls to destroy.
var mongoParts = []string{
	"dropDatabase(", ".drop(", "dropIndex", "dropUser", "dropRole", "dropCollection", "deleteMany(", ".remove(",
	"deleteOne(",
	"findOneAndDelete(", "findAndRemove(", "bulkWrite(", "renameCollection(", "shutdownServer(", "dropAllUsers",
	"dropAllRoles",
	"resetError", "replSetStepDown", "stepDown(", "compact:", "removeShard",
}

// store is text for a store that has no SQL: scripts, and commands on its input.
func (r *reader) store() {
	for _, w := range r.In.Files {
		r.feed(w, false, (*reader).storeText)
	}
	r.wordFiles((*reader).storeText)
	r.storeText(r.input())
	for i, w := range r.Argv[1:] {
		r.storeText(w.Text)
		if strings.HasSuffix(w.Text, ".js") || isFileOption(r.Argv[i].Text) {
			r.feed(w, false, (*reader).storeText)
		}
	}
}

func (r *reader) storeText(text string) {
	for _, part := range mongoParts {
		if strings.Contains(text, part) {
			r.act(Destroys, strings.Trim(part, ".(:"), program.Word{})
			return
		}
	}
}

// commands is a client that reads a command in each line of its input.
func (r *reader) commands() {
	for _, w := range r.In.Files {
		r.feed(w, false, (*reader).commandLines)
	}
	r.commandLines(r.input())
}

func (r *reader) commandLines(text string) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		inner := *r.Call
		inner.In, inner.Listed = program.Input{}, false
		inner.Argv = r.Argv[:1:1]
		for _, word := range words {
			inner.Argv = append(inner.Argv, program.Literal(word, r.In.At))
		}
		in := reader{Call: &inner, tool: r.tool, outside: r.outside, depth: r.depth + 1}
		in.verbs()
		r.out.Acts = append(r.out.Acts, in.out.Acts...)
	}
}

// jar is java -jar: the file has the name of the program.
func (r *reader) jar() {
	for i, w := range r.Argv[1:] {
		if w.Is("-jar") && i+2 < len(r.Argv) {
			name := strings.TrimSuffix(base(r.Argv[i+2].Text), ".jar")
			r.inside(name, r.Argv[i+2:])
			return
		}
	}
}

// Maker says what the output of a program is: "decoder", "download", "text" (it puts text
// together or changes it), or "" for anything else. Versions count as their program (python3.12).
func Maker(name string, words func() []string) string {
	load()
	for _, t := range lookup(all.makers, name) {
		if len(t.needs) == 0 {
			return t.makes
		}
		for _, a := range words() {
			for _, n := range t.needs {
				part, isPart := strings.CutPrefix(n, "~")
				clustered := isFlag(n) && len(a) > 2 && a[0] == '-' && a[1] != '-' && strings.Contains(a, n[1:])
				if a == n || clustered || isPart && strings.Contains(a, part) {
					return t.makes
				}
			}
		}
	}
	return ""
}

// isFlag reports whether a word is one letter behind one dash, which may stand among others (-dc).
func isFlag(word string) bool { return len(word) == 2 && word[0] == '-' && word[1] != '-' }

// Queries reports whether a program of a database reads its statements, or scripts, on its input.
func Queries(name string) bool {
	t := find(name)
	return t != nil && (slices.Contains(t.do, "sql") || slices.Contains(t.do, "store"))
}

// maker is what a program makes of what it prints.
type maker struct {
	makes string
	needs []string // only with one of these words
}
