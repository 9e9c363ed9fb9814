package effect

import (
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/shellparse/program"
)

// Feed is a file from which a command takes statements or code.
type Feed struct {
	Word program.Word
	// Written: it is a script. One of the workspace is not read, one that the line itself writes is.
	Written bool
	// Of is what the command does with text that stands there.
	Of func(text string) *Effects
}

// Destroys reports whether the name of a file of statements says that they destroy: drop_all.sql, reset.sql.
func (f Feed) Destroys() bool {
	load()
	name, _, _ := strings.Cut(base(f.Word.Text), ".")
	parts := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return c == '_' || c == '-' })
	return !f.Written && slices.ContainsFunc(parts, func(part string) bool { return all.classes[Destroys][part] })
}

// maxFeeds is how many files one command is followed into.
const maxFeeds = 16

// feed notes a file of which take is told the text. Nobody knows what one more than maxFeeds does.
func (r *reader) feed(w program.Word, written bool, take func(in *reader, text string)) {
	if w.Lit() == "" || w.Is("-") {
		return
	}
	if len(r.out.Feeds) == maxFeeds {
		const verb = "statements beyond those that are read"
		if !slices.ContainsFunc(r.out.Acts, func(a Act) bool { return a.Verb == verb }) {
			r.act(Destroys, verb, w)
		}
		return
	}
	call, tool, depth := *r.Call, r.tool, r.depth
	r.out.Feeds = append(r.out.Feeds, Feed{w, written, func(text string) *Effects {
		in := reader{Call: &call, tool: tool, depth: depth}
		take(&in, text)
		return &in.out
	}})
}

// catOf is a word that is what stands in a file: $(cat f), $(< f).
var catOf = lazyregexp.New(`\$\(\s*(?:cat\s+|<\s*)["']?([^\s"'` + "`" + `;|&()$]+)["']?\s*\)`)

// wordFiles are the files whose text is in the words of the command.
func (r *reader) wordFiles(take func(in *reader, text string)) {
	for _, w := range r.Argv[1:] {
		if w.Known || !strings.Contains(w.Text, "$(") {
			continue
		}
		for _, m := range catOf().FindAllStringSubmatch(w.Text, maxFeeds+1) {
			r.feed(program.Literal(m[1], w.At), false, take)
		}
	}
}

// sqlFiles are the files of statements that a client is given.
func (r *reader) sqlFiles() {
	take := func(in *reader, text string) { in.statements(text, program.Word{Known: true, At: in.At}) }
	for _, w := range r.In.Files {
		r.feed(w, false, take)
	}
	r.wordFiles(take)
	for i, w := range r.Argv[1:] {
		text := w.Lit()
		_, value, ok := strings.Cut(text, "=")
		switch before := r.Argv[i].Text; {
		case before == "-o" || before == "-L" || strings.HasPrefix(before, "--out") ||
			strings.HasPrefix(before, "--log"):
			continue
		case strings.HasPrefix(text, "--") && ok && isFileOption(text[:len(text)-len(value)-1]):
			text = value
		case strings.HasPrefix(text, "-f"):
			text = text[2:]
		case isFileOption(before):
		case !isSQLFile(text) || strings.HasPrefix(text, "-"):
			continue
		}
		if text = strings.TrimPrefix(text, "@"); text != "" && !strings.HasPrefix(text, "-") {
			r.feed(program.Literal(text, w.At), false, take)
		}
	}
}

func isFileOption(name string) bool {
	switch name {
	case "-f", "--file", "-i", "--queries-file", "--input-file", "--filename", "--script":
		return true
	}
	return false
}

func isSQLFile(name string) bool {
	for _, ending := range []string{".sql", ".ddl", ".cql", ".hql"} {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return false
}

// includes are the files that text for a client names: \i f, .read f, source f, \. f, @f.
func (r *reader) includes(text string) {
	if !strings.ContainsAny(text, `\.@`) && !strings.Contains(text, "ource") {
		return
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), ";"))
		name := ""
		switch {
		case len(f) == 1 && strings.HasPrefix(f[0], "@"):
			name = strings.TrimLeft(f[0], "@")
		case len(f) < 2:
			continue
		case slices.Contains([]string{`\i`, `\ir`, `\include`, `\.`, ".read", "source", "SOURCE", "Source"}, f[0]):
			name = strings.Trim(f[1], `'"`)
		}
		if name != "" {
			r.feed(program.Literal(name, r.At), false, func(in *reader, text string) {
				in.statements(text, program.Word{Known: true, At: in.At})
			})
		}
	}
}

// console is a program that reads code on its input behind a subcommand: django's shell, rails console.
func (r *reader) console(of string) {
	languages, subs, _ := strings.Cut(of, " ")
	words := r.words()
	if !slices.ContainsFunc(words[:min(3, len(words))], func(w program.Word) bool {
		return slices.Contains(strings.Split(subs, "|"), w.Text)
	}) {
		return
	}
	take := func(in *reader, text string) {
		for language := range strings.SplitSeq(languages, ",") {
			if language == "sql" {
				in.statements(text, program.Word{Known: true, At: in.At})
			} else if len(in.out.Code) == 0 {
				in.codeText(language, text)
			}
		}
	}
	for i, w := range r.Argv[1:] {
		_, value, ok := strings.Cut(w.Text, "=")
		switch {
		case ok && (strings.HasPrefix(w.Text, "--execute=") || strings.HasPrefix(w.Text, "--command=")):
			take(r, value)
		case takesCode(r.Argv[i].Text) || r.Argv[i].Is("--command"):
			take(r, w.Text)
		}
	}
	take(r, r.input())
	for _, w := range r.In.Files {
		r.feed(w, languages != "sql", take)
	}
}
