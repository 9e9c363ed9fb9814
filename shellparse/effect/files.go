package effect

import (
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// aList is how many files a command may name before it deletes many.
const aList = 3

// deletes is what a program removes, empties or moves.
func (r *reader) deletes() {
	switch coreName(r.Name) {
	case "rm", "srm", "rimraf", "rmtrash", "safe-rm", "trash-rm", "wipe", "del-cli", "unlink", "shred", "truncate",
		"wipefreespace", "sfill", "sswap":
		r.removes()
	case "mv":
		r.moves()
	case "tee":
		for _, w := range r.words() {
			if many(w) && !r.option("-a") {
				r.out.Deletes = append(r.out.Deletes, Delete{Word: w, Many: true})
			}
		}
	case "sed":
		r.emptied()
	case "cp", "install":
		if words := r.words(); len(words) > 1 && words[0].Is("/dev/null") {
			r.overwrites(words[1:])
		}
		r.replaces()
	case "ln", "scp":
		r.replaces()
	case "rsync":
		r.replaces()
		r.mirrors()
	case "gzip", "pigz", "bzip2", "bunzip2", "pbzip2", "xz", "unxz", "lzma", "unlzma", "lzip", "zstd", "unzstd",
		"lz4", "unlz4", "lzop", "brotli", "compress", "uncompress", "gunzip":
		r.packed()
	case "awk":
		if r.awkDrops() {
			r.overwrites(r.words()[1:])
		}
	case "ed":
		if edEmpties(r.input()) {
			r.overwrites(r.words())
		}
	case "fallocate":
		if r.option("-p") || r.option("-z") || r.option("-c") || r.option("--punch-hole") || r.option("--zero-range") ||
			r.option("--collapse-range") {
			r.overwrites(r.words())
		}
	case "perl":
		if r.perlEmpties() {
			r.overwrites(r.files())
		}
	case "vim", "vi", "ex", "nvim":
		if r.editorEmpties() {
			r.overwrites(r.files())
		}
	case "find":
		r.findDeletes()
	case "tar", "bsdtar":
		r.packs(r.Effects["move"] || r.option("--remove-files"), 0)
		r.unpacks()
	case "unzip", "bsdunzip":
		r.unpacks()
	case "zip":
		r.packs(r.option("-m") || r.option("--move"), 1)
	case "7z", "7za", "7zz", "rar":
		r.packs(r.option("-sdel") || r.option("-df"), 2)
	case "patch":
		if len(r.Operands) == 0 {
			r.patched()
		}
		if r.option("-R") || r.option("--reverse") {
			r.out.Discards = append(r.out.Discards, Discard{What: Work})
		}
	}
	if r.Name == "bfind" {
		r.findDeletes()
	}
}

// patched deletes the files that a patch in the line deletes.
func (r *reader) patched() {
	for _, option := range []string{"--dry-run", "--check", "--stat", "--numstat", "--summary"} {
		if r.option(option) {
			return
		}
	}
	for _, w := range r.Patch().Deletes {
		r.out.Deletes = append(r.out.Deletes, Delete{Word: w})
	}
}

// coreName returns a name without the g that systems put in front of GNU programs.
func coreName(name string) string {
	switch rest := strings.TrimPrefix(name, "g"); rest {
	case "zip", "unzip":
		return name
	case "awk", "rm", "mv", "cp", "ln", "sed", "tar", "find", "install", "patch", "shred", "truncate":
		return rest
	}
	return name
}

// words returns the operands, by the tables of package program where they know the command.
func (r *reader) words() []program.Word {
	if r.Operands != nil {
		return r.Operands
	}
	var words []program.Word
	for i, w := range r.Argv[1:] {
		if w.Known && w.Text == "--" {
			return append(words, r.Argv[i+2:]...)
		}
		if !w.Known || !strings.HasPrefix(w.Text, "-") || len(w.Text) == 1 {
			words = append(words, w)
		}
	}
	return words
}

// option reports whether the command has an option, -x or --name. Where a table knows its options, letters of their
// values are none.
func (r *reader) option(name string) bool { return r.last(name) >= 0 }

// last returns where the last of these options stands among the options, or -1. A long one may be cut short.
func (r *reader) last(names ...string) int {
	options := r.Options
	if !r.Listed {
		options = letters(r.Argv[1:])
	}
	for i := len(options) - 1; i >= 0; i-- {
		for _, name := range names {
			if o := options[i]; o == name || len(o) > 3 && len(name) > 2 && strings.HasPrefix(name, o) {
				return i
			}
		}
	}
	return -1
}

// letters returns what may be options among words whose meaning nobody knows, whole and letter by letter.
func letters(words []program.Word) (options []string) {
	for _, w := range words {
		switch text := w.Text; {
		case !w.Known || len(text) < 2 || text[0] != '-':
		case text == "--":
			return options
		default:
			name, _, _ := strings.Cut(text, "=")
			options = append(options, name)
			for i := 1; i < len(text) && text[1] != '-'; i++ {
				options = append(options, "-"+text[i:i+1])
			}
		}
	}
	return options
}

func (r *reader) removes() {
	if r.option("--help") || r.option("--version") {
		return
	}
	words := r.words()
	tree := r.Effects["rec"] || r.option("--recursive") || r.option("-r") || r.option("-R") ||
		strings.Contains(r.Name, "rimraf") || r.Name == "del-cli"
	for _, w := range words {
		d := Delete{Word: w, Tree: tree || w.Tree && tree, Many: many(w) || len(words) > aList}
		if w.Named != "" {
			d.Names = strings.Split(w.Named, "\x00")
		}
		r.out.Deletes = append(r.out.Deletes, d)
	}
}

// overwrites are files that lose all that is in them.
func (r *reader) overwrites(words []program.Word) {
	for _, w := range words {
		r.out.Deletes = append(r.out.Deletes, Delete{Word: w, Many: many(w) || len(words) > aList})
	}
}

// files returns the words that are neither options nor their code.
func (r *reader) files() []program.Word {
	var out []program.Word
	for i, w := range r.Argv[1:] {
		if !strings.HasPrefix(w.Text, "-") && !strings.HasPrefix(w.Text, "+") && !takesCode(r.Argv[i].Text) {
			out = append(out, w)
		}
	}
	return out
}

// perlEmpties reports whether perl -i prints nothing of what it reads, or only the lines of a pattern.
func (r *reader) perlEmpties() bool {
	inPlace, loops, prints, empties := false, false, false, false
	for i, w := range r.Argv[1:] {
		if len(w.Text) > 1 && w.Text[0] == '-' && w.Text[1] != '-' {
			inPlace = inPlace || strings.Contains(w.Text, "i")
			loops = loops || strings.Contains(w.Text, "n")
			prints = prints || strings.Contains(w.Text, "p")
			continue
		}
		if i > 0 && takesCode(r.Argv[i].Text) && perlEmpties[strings.ReplaceAll(strings.Trim(w.Text, "; "), " ", "")] {
			empties = true
		}
		text := strings.ReplaceAll(w.Text, "print if", "") // only some lines stay
		prints = prints || strings.Contains(text, "print") || strings.Contains(text, "say") || !w.Known
	}
	return inPlace && (empties || loops && !prints)
}

// editorEmpties reports whether a command of an editor deletes every line.
func (r *reader) editorEmpties() bool {
	for _, w := range r.Argv[1:] {
		for part := range strings.SplitSeq(strings.ReplaceAll(w.Text, "\n", "|"), "|") {
			switch strings.ReplaceAll(strings.Trim(part, "+: "), " ", "") {
			case "%d", "1,$d", "g/./d", "%delete", "g/^/d":
				return true
			}
		}
	}
	return false
}

func many(w program.Word) bool {
	return w.Tree || w.Glob && !w.Number || !w.Known && w.Many
}

// moves: what was at a name is at another one, which may count as something else.
func (r *reader) moves() {
	words := r.words()
	to := program.Word{}
	if v := r.Values["-t"]; len(v) > 0 {
		to = v[len(v)-1]
	} else if len(words) > 1 {
		to = words[len(words)-1]
		words = words[:len(words)-1]
	} else {
		return
	}
	r.replaces()
	if to.Is("/dev/null") {
		for _, w := range words {
			r.out.Deletes = append(r.out.Deletes, Delete{Word: w, Tree: true, Many: many(w)})
		}
		return
	}
	for _, w := range words {
		r.out.Deletes = append(r.out.Deletes, Delete{Word: w, Tree: true, Many: many(w), Moved: true, To: to})
	}
}

// mirrors is rsync that deletes in a directory here what the other one does not have.
func (r *reader) mirrors() {
	words := r.words()
	if len(words) < 2 || r.option("-n") || r.option("--dry-run") || r.option("--list-only") {
		return
	}
	to := words[len(words)-1]
	for _, w := range r.Argv[1:] {
		if strings.HasPrefix(w.Text, "--del") && !strings.Contains(to.Text, ":") {
			r.out.Deletes = append(r.out.Deletes, Delete{Word: to, Tree: true, Many: true})
			return
		}
	}
}

// findDeletes is find with -delete: what it selects below its roots.
func (r *reader) findDeletes() {
	var roots []program.Word
	deletes, empty, inExpression := false, false, false
	skip, exec := false, false
	negates := func(w program.Word) bool { return w.Is("!") || w.Is("-not") || w.Is("-o") || w.Is("-or") || w.Is(",") }
	for _, w := range r.Argv[1:] {
		switch {
		case skip:
			skip = false
			continue
		case exec:
			exec = !w.Is(";") && !w.Is("+")
		case w.Is("-exec") || w.Is("-execdir") || w.Is("-ok") || w.Is("-okdir"):
			exec = true
		case w.Is("-delete"):
			deletes = true
		case w.Is("-empty"): // what else is tested must hold too
			empty = !slices.ContainsFunc(r.Argv[1:], negates)
		case program.FindValue(w.Text):
			skip = true
		case inExpression && r.unsure(w):
			deletes = true
		}
		if strings.HasPrefix(w.Text, "-") || w.Is("(") || w.Is("!") {
			inExpression = inExpression || w.Text != "-H" && w.Text != "-L" && w.Text != "-P"
		} else if !inExpression {
			roots = append(roots, w)
		}
	}
	if !deletes || empty || r.inExec("-delete") {
		return
	}
	if len(roots) == 0 {
		roots = []program.Word{program.Literal(".", r.At)}
	}
	var names []string
	if named := program.Selected(r.Argv[1:]); named != "" {
		names = strings.Split(named, "\x00")
	}
	for _, w := range roots {
		w.Tree = true
		r.out.Deletes = append(r.out.Deletes, Delete{Word: w, Tree: true, Many: true, Names: names})
	}
}

// inExec reports whether a word stands among those of a program that find starts, and nowhere
// else.
func (r *reader) inExec(word string) bool {
	inside, found := false, false
	for i, w := range r.Argv[1:] {
		switch {
		case w.Is("-exec") || w.Is("-execdir") || w.Is("-ok") || w.Is("-okdir"):
			inside = true
		case inside && (w.Is(";") || w.Is("+") && r.Argv[i].Is("{}")):
			inside = false
		case w.Is(word) && !inside:
			return false
		case w.Is(word):
			found = true
		}
	}
	return found
}

// packs is an archiver that removes what it has packed.
func (r *reader) packs(removes bool, before int) {
	words := r.words()
	if !removes || len(words) < before {
		return
	}
	for _, w := range words[before:] {
		r.out.Deletes = append(r.out.Deletes, Delete{Word: w, Tree: true, Many: many(w), Copied: true})
	}
}
