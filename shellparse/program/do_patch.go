package program

import (
	"path"
	"slices"
	"strings"
)

// What a patch changes, where the line has its text: a patch names its files.

// Patched are the files of a patch.
type Patched struct {
	Writes, Deletes []Word
}

// Patch returns the files of the patches that a call of patch, git apply or git am gets from the line.
func (a *Call) Patch() (p Patched) {
	reader := patchReader{strip: 1, git: a.Name == "git"}
	if !reader.git {
		reader.strip = -1
	}
	for _, f := range a.Values["-p"] {
		if len(f.Text) == 1 && AllDigits(f.Text) {
			reader.strip = int(f.Text[0] - '0')
		}
	}
	for _, f := range a.Argv {
		reader.reverse = reader.reverse || f.Is("-R") || f.Is("--reverse") ||
			reader.git && len(f.Text) > 5 && strings.HasPrefix("--reverse", f.Text)
	}
	sources := append([]Word{}, a.Values["-i"]...)
	switch {
	case reader.git:
		sources = append(sources, a.Operands...)
	case len(a.Operands) > 1:
		sources = append(sources, a.Operands[1])
	}
	if len(sources) == 0 {
		sources = []Word{Literal("-", a.At)}
	}
	for _, source := range sources {
		for _, text := range a.texts(source) {
			reader.read(text)
		}
	}
	under := ""
	if v := a.Values["--directory"]; reader.git && len(v) > 0 {
		under = v[len(v)-1].Text
	}
	word := func(name string) Word {
		f := Literal(path.Join(under, name), a.At)
		f.Known = !strings.ContainsAny(name, "\"$`")
		return f
	}
	for _, name := range reader.writes {
		p.Writes = append(p.Writes, word(name))
	}
	for _, name := range reader.deletes {
		p.Deletes = append(p.Deletes, word(name))
	}
	return p
}

// patchReader reads the headers of a patch.
type patchReader struct {
	strip           int // leading directories that names lose; -1: all of them
	git             bool
	reverse         bool
	writes, deletes []string
}

func (p *patchReader) read(text string) {
	var before, header string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		word, name, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "\t")
		switch word {
		case "---":
			before = name
		case "+++":
			p.pair(before, name)
			before = ""
		case "Index:":
			p.add(&p.writes, name)
		case "diff":
			if header, name, _ = strings.Cut(name, " b/"); name != "" {
				p.add(&p.writes, "b/"+name)
			}
			header = strings.TrimPrefix(header, "--git ")
		case "deleted", "new":
			if strings.Contains(line, " file mode ") && (word == "deleted") != p.reverse {
				p.add(&p.deletes, header)
			}
		case "rename", "copy":
			way, name, _ := strings.Cut(name, " ")
			switch name = p.below(name); {
			case word == "rename" && (way == "from") != p.reverse:
				p.deletes = append(p.deletes, name)
			default:
				p.writes = append(p.writes, name)
			}
		}
	}
}

// below keeps a name as it is: those of a rename have no a/ in front, and lose one less.
func (p *patchReader) below(name string) string {
	for n := 1; n < p.strip; n++ {
		_, name, _ = strings.Cut(name, "/")
	}
	return name
}

// pair is a file before and after the change. /dev/null is none.
func (p *patchReader) pair(from, to string) {
	if p.reverse {
		from, to = to, from
	}
	switch {
	case strings.HasPrefix(to, "/dev/null"):
		p.add(&p.deletes, from)
	default:
		p.add(&p.writes, to)
		if !p.git && !strings.HasPrefix(from, "/dev/null") {
			p.add(&p.writes, from) // patch takes the one that is there
		}
	}
}

// add adds a name without the directories that it loses.
func (p *patchReader) add(to *[]string, name string) {
	name, _, _ = strings.Cut(strings.TrimSpace(name), "\t")
	if p.strip < 0 {
		name = path.Base(name)
	}
	for n := 0; n < p.strip; n++ {
		if _, rest, ok := strings.Cut(name, "/"); ok {
			name = strings.TrimLeft(rest, "/")
		}
	}
	if name != "" && name != "." && !slices.Contains(*to, name) {
		*to = append(*to, name)
	}
}

// doPatch: with -o or --dry-run the file is only read.
func doPatch(a *Call) {
	if len(a.Values["-o"]) > 0 && len(a.Operands) > 0 {
		a.use(reads, a.Operands[0])
		a.UseOperands(nil)
		return
	}
	if len(a.Operands) == 0 {
		// The patch names the files; they lie below the working directory.
		a.use(writes, Literal(".", a.At))
		a.patches()
	}
	a.UseOperands(a.Operands)
}

func doGitApply(a *Call) {
	a.UseOperands(a.Operands)
	for _, f := range a.Argv {
		if f.Is("--check") || f.Is("--stat") || f.Is("--numstat") || f.Is("--summary") {
			return
		}
	}
	a.patches()
}

// patches writes the files of the patches that the line has in it.
func (a *Call) patches() {
	p := a.Patch()
	for _, f := range p.Writes {
		a.use(changes, f)
	}
	for _, f := range p.Deletes {
		a.use(cuts, f)
	}
}
