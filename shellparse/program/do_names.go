package program

import "strings"

// Lists of names: what tar -T, sort --files0-from and the like read are names of files, which the program uses as if
// they were its operands.

// listed uses the files that a list names. "-" is the input.
func (a *Call) listed(k kind, list Word) {
	var names []Word
	if stdinNames[list.Lit()] {
		names = a.inputNames()
	} else {
		a.File(list, Read, false)
		names = a.namesIn(list)
	}
	for _, f := range names {
		a.File(f, Read, k == treeNames)
	}
}

// IsStdin reports whether a word names the standard input as a file.
func IsStdin(f Word) bool { return f.Text != "-" && stdinNames[f.Lit()] }

var stdinNames = set("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")

// anyName is a name that a list may have in it.
func (a *Call) anyName() Word { return Word{Text: "(names in a list)", At: a.At} }

// namesIn returns the names in a file: what the line writes into it, else any.
func (a *Call) namesIn(list Word) []Word {
	var names []Word
	for _, text := range a.Written(list) {
		names = append(names, a.names(text)...)
	}
	if names == nil {
		names = []Word{a.anyName()}
	}
	return names
}

// inputNames returns the names on the standard input.
func (a *Call) inputNames() []Word {
	switch in := a.In; {
	case len(in.Paths) > 0:
		names := make([]Word, len(in.Paths))
		for i, f := range in.Paths {
			f.Tree = true
			names[i] = f
		}
		return names
	case in.Kind == HereText:
		return a.names(in.Text)
	case in.Printed != "":
		return a.printedNames(in.Printed)
	case len(in.Files) > 0:
		var names []Word
		for _, f := range in.Files {
			names = append(names, a.namesIn(f)...)
		}
		return names
	case in.Kind == Inherited && !a.Fed:
		return nil
	}
	return []Word{a.anyName()}
}

// names returns the lines of a list, or its parts between zero bytes.
func (a *Call) names(text string) (names []Word) {
	for name := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == 0 }) {
		names = append(names, a.name(name))
	}
	return names
}

// name is one of a list. One that begins with a dash may be an option, as it is for tar.
func (a *Call) name(text string) Word {
	if strings.HasPrefix(text, "-") || strings.ContainsAny(text, "$`\"'\\*?[") {
		return a.anyName()
	}
	return Literal(text, a.At)
}

// printedNames are those in the words of an echo or a printf. The words may be names, or all of them one.
func (a *Call) printedNames(text string) (names []Word) {
	for _, format := range []string{`%s\n `, `%s\0 `, `%s `, "%s\n ", "-n ", "-e ", "-ne ", "-- "} {
		text = strings.TrimPrefix(text, format)
	}
	for _, end := range []string{`\n`, `\0`} {
		text = strings.TrimSuffix(text, end)
	}
	if strings.ContainsAny(text, `%\`) {
		return []Word{a.anyName()}
	}
	names = a.names(text)
	if strings.Contains(text, " ") {
		for word := range strings.FieldsSeq(text) {
			names = append(names, a.name(word))
		}
	}
	return names
}

// texts returns what is known of the standard input or of a file that the line writes.
func (a *Call) texts(f Word) []string {
	if !stdinNames[f.Lit()] {
		return a.Written(f)
	}
	switch in := a.In; {
	case in.Kind == HereText:
		return []string{in.Text}
	case in.Printed != "":
		return []string{strings.ReplaceAll(in.Printed, `\n`, "\n")}
	}
	var texts []string
	for _, from := range a.In.Files {
		texts = append(texts, a.Written(from)...)
	}
	return texts
}

// includes reads the files that known text of C includes.
func (a *Call) includes(source Word) {
	for _, text := range a.texts(source) {
		for line := range strings.Lines(text) {
			line, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), "#")
			line = strings.TrimLeft(line, " \t")
			if !ok || !strings.HasPrefix(line, "inc") && !strings.HasPrefix(line, "import") &&
				!strings.HasPrefix(line, "embed") {
				continue
			}
			name := strings.TrimLeft(line, "includemportb_x \t")
			switch end := strings.IndexAny(name[min(1, len(name)):], `">`); {
			case end > 0 && (name[0] == '"' || name[0] == '<' && strings.ContainsAny(name[1:2], "/.")):
				a.File(Literal(name[1:1+end], a.At), Read, false)
			case !strings.HasPrefix(name, "<"):
				a.File(Word{Text: "(what " + a.Name + " includes)", At: a.At}, Read, false)
			}
		}
	}
}

// settings starts curl with what a file of settings says, where the line does.
func (a *Call) settings(file Word) bool {
	texts := a.texts(file)
	for _, text := range texts {
		words := []Word{Literal(a.Name, a.At)}
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			end := strings.IndexAny(line, " \t=:")
			if end < 0 {
				end = len(line)
			}
			name, value := line[:end], strings.TrimLeft(line[end:], " \t=:")
			if !strings.HasPrefix(name, "-") {
				name = "--" + name
			}
			words = append(words, Literal(name, a.At))
			if quoted, ok := strings.CutPrefix(value, `"`); ok {
				value = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(before(quoted, `"`))
			}
			if value != "" {
				f := Literal(value, a.At)
				f.Known = !strings.ContainsAny(value, "$`\\")
				words = append(words, f)
			}
		}
		a.Start(words)
	}
	return len(texts) > 0
}

// handedOn are the files that a compiler tells its preprocessor, assembler or linker to write: -Wp,-MD,FILE.
func (a *Call) handedOn() {
	var parts []Word
	for i, f := range a.Argv {
		switch {
		case strings.HasPrefix(f.Text, "-Wp,") || strings.HasPrefix(f.Text, "-Wa,") ||
			strings.HasPrefix(f.Text, "-Wl,"):
			for part := range strings.SplitSeq(f.Text[4:], ",") {
				parts = append(parts, f.Sub(part))
			}
		case i > 0 && (a.Argv[i-1].Is("-Xpreprocessor") ||
			a.Argv[i-1].Is("-Xassembler") || a.Argv[i-1].Is("-Xlinker")):
			parts = append(parts, f)
		}
	}
	for i, f := range parts {
		name, value, ok := strings.Cut(f.Text, "=")
		switch {
		case i > 0 && handsOut[parts[i-1].Lit()]:
			a.use(writes, f)
		case ok && (handsOut[name] || strings.HasPrefix(name, "-a")):
			a.use(writes, f.Sub(value))
		}
	}
}

var handsOut = set("-MD", "-MMD", "-MF", "--MD", "-o", "--output", "-Map", "--Map", "--dependency-file", "--out-implib")
