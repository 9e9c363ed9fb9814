package effect

import (
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// Replace is a file that gets the content of another one, or a directory in which files do.
type Replace struct {
	Word  program.Word
	Names []string       // what the files have for a name if it is a directory
	From  []program.Word // what they are made from
}

// replaces is a program that copies, moves or links: the last operand, or the value of -t, is the target.
func (r *reader) replaces() {
	switch r.Name {
	case "rsync":
		if r.option("-n") || r.option("--dry-run") || r.option("--ignore-existing") {
			return
		}
	case "ln", "gln":
		if !r.option("-f") && !r.option("--force") {
			return
		}
	default: // of these the last one counts
		if keeps := r.last("-n", "--no-clobber"); keeps > r.last("-f", "--force", "-i", "--interactive", "--update") {
			return
		}
	}
	if r.Name != "scp" && r.backs() {
		return
	}
	words := r.words()
	if v := r.Values["-t"]; len(v) > 0 {
		r.replace(v[len(v)-1], words)
	} else if len(words) > 1 && !r.option("-d") || len(words) > 1 && r.Name != "install" {
		r.replace(words[len(words)-1], words[:len(words)-1])
	} else if len(words) == 1 && strings.HasSuffix(r.Name, "ln") {
		r.replace(program.Literal(".", r.At), words)
	}
}

// backs reports whether what is replaced is kept under another name.
func (r *reader) backs() bool {
	for _, w := range r.Values["--backup"] {
		if !w.Known || strings.HasPrefix(w.Text, "no") && w.Text != "numbered" || w.Is("off") {
			return false
		}
	}
	return r.option("-b") || r.option("--backup")
}

func (r *reader) replace(to program.Word, from []program.Word) {
	if (r.Name == "rsync" || r.Name == "scp") && strings.Contains(to.Text, ":") {
		return // another host
	}
	if to.Tree { // what find has found
		r.overwrites([]program.Word{to})
		return
	}
	out := Replace{Word: to, From: from}
	for _, w := range from {
		if name := base(w.Lit()); name != "" && name != "." && name != ".." {
			out.Names = append(out.Names, name)
		}
	}
	r.out.Replaces = append(r.out.Replaces, out)
}

// packed is a program that puts a packed file in place of the one that it is given, or the other way.
func (r *reader) packed() {
	if r.Effects["tostdout"] || r.option("-k") || r.option("--keep") || r.option("-h") || r.option("--help") {
		return
	}
	switch r.Name {
	case "zstd", "unzstd":
		if !r.option("--rm") {
			return
		}
	case "lz4", "unlz4", "lzop", "brotli":
		if !r.option("--rm") && !r.option("-U") && !r.option("-j") {
			return
		}
	}
	ending := packedEnding[strings.TrimPrefix(r.Name, "un")]
	unpacks := strings.HasPrefix(r.Name, "un") || strings.Contains(r.Name, "gun") || strings.Contains(r.Name, "bun") ||
		r.option("-d") || r.option("--decompress") || r.option("--uncompress")
	for _, w := range r.words() {
		if w.Lit() == "" {
			continue
		}
		name := w.Text + ending
		if unpacks {
			if i := strings.LastIndexByte(w.Text, '.'); i > strings.LastIndexByte(w.Text, '/') {
				name = w.Text[:i]
			}
		}
		to := program.Literal(name, w.At)
		if r.option("-f") || r.option("--force") {
			r.out.Replaces = append(r.out.Replaces, Replace{Word: to, From: []program.Word{w}})
		}
		r.out.Deletes = append(r.out.Deletes, Delete{Word: w, Moved: true, To: to})
	}
}

var packedEnding = map[string]string{
	"gzip": ".gz", "pigz": ".gz", "bzip2": ".bz2", "pbzip2": ".bz2", "xz": ".xz", "lzma": ".lzma", "lzip": ".lz",
	"zstd": ".zst", "lz4": ".lz4", "lzop": ".lzo", "brotli": ".br", "compress": ".Z",
}

// emptied is sed -i whose script leaves nothing of any line.
func (r *reader) emptied() {
	if !r.option("-i") && !r.option("--in-place") {
		return
	}
	files, scripts := r.words(), r.Values["-e"]
	if len(scripts) == 0 {
		if len(files) < 2 {
			return
		}
		scripts, files = files[:1], files[1:]
	}
	// With -n only what is printed stays in the file.
	drops := r.option("-n") || r.option("--quiet") || r.option("--silent")
	for _, s := range scripts {
		drops = drops && !printsAll(s.Text)
		for part := range strings.FieldsFuncSeq(s.Text, func(c rune) bool { return c == ';' || c == '\n' }) {
			if sedEmpties[strings.ReplaceAll(part, " ", "")] {
				r.overwrites(files)
				return
			}
			if strings.ContainsAny(part, "pPwWrRiac=") {
				break // something is printed before
			}
		}
	}
	if drops {
		r.overwrites(files)
	}
}

// printsAll reports whether a script of sed has a p that no address limits.
func printsAll(script string) bool {
	for part := range strings.FieldsFuncSeq(script, func(c rune) bool { return c == ';' || c == '\n' }) {
		if strings.TrimSpace(part) == "p" {
			return true
		}
	}
	return false
}

// sedEmpties are commands of sed that leave nothing.
var sedEmpties = words("d 1,$d 0,$d 1~1d 0~1d /./d /^/d /$/d /.*/d 1,$!d /./,$d /^/,$d 1,$c s/.*// s/.*//g s/^.*$// " +
	"s/^.*$//g s/.//g s/.*//; z")

// perlEmpties are programs for perl -p that leave nothing.
var perlEmpties = words(`$_="" $_='' $_=undef undef$_ undef undef($_) $_=q() $_=qq() $_=q{} s/.*//s s/.*// s/.*//g ` +
	`s/.*//gs s/.//g s/.//gs s/^.*$// s/^.*\n// s/.+//s $_="\n" undef$_;1 $_=""if1`)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// awkDrops reports whether awk -i inplace prints nothing of what it reads, or only the lines of a pattern.
func (r *reader) awkDrops() bool {
	inPlace := false
	for i, w := range r.Argv[1:] {
		inPlace = inPlace || w.Is("inplace") && (r.Argv[i].Is("-i") || r.Argv[i].Is("--include")) ||
			w.Is("-iinplace") || w.Is("--include=inplace")
	}
	operands := r.words()
	if !inPlace || len(operands) < 2 || !operands[0].Known {
		return false
	}
	code := operands[0].Text
	rest, depth := "", 0
	for _, c := range code {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case depth == 0:
			rest += string(c)
		}
	}
	rest = strings.Trim(strings.ReplaceAll(strings.ReplaceAll(rest, "BEGIN", ""), "END", ""), " ;\n\t")
	if rest == "" {
		return !strings.Contains(code, "print")
	}
	return rest == "0" || !strings.Contains(code, "{") && strings.Trim(rest, "0123456789") != ""
}

// edEmpties reports whether a script of ed deletes every line, and writes.
func edEmpties(script string) bool {
	empty := false
	for line := range strings.Lines(script) {
		switch strings.ReplaceAll(strings.TrimSpace(line), " ", "") {
		case ",d", "1,$d", "%d", "g/./d", "g/^/d":
			empty = true
		case "w", "wq":
			if empty {
				return true
			}
		}
	}
	return false
}
