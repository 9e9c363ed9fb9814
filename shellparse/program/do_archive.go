package program

import (
	"slices"
	"strings"
)

// doTar: what the archive and the operands are depends on the mode; -C moves what
// follows it.
func doTar(a *Call) {
	args := a.Argv[1:]
	mode := tarMode(args, a.Effects)
	create := mode == 'c'
	archive := func(f Word) {
		switch {
		case f.Is("-"):
		case f.Known && !strings.HasPrefix(f.Text, "/") && !strings.HasPrefix(f.Text, ".") &&
			strings.Contains(before(f.Text, "/"), ":"):
			a.host(before(f.Text, ":"))
		case create:
			a.use(writes, f)
		default:
			a.use(reads, f)
		}
	}
	// The cluster without a dash: letters that take a value take the next words.
	if len(args) > 0 && args[0].Known && !strings.HasPrefix(args[0].Text, "-") {
		ops := a.Operands
		if len(ops) > 0 {
			ops = ops[1:]
		}
		for _, c := range args[0].Text {
			o := a.spec.opts["-"+string(c)]
			if o.kind == flag || o.optional || len(ops) == 0 {
				continue
			}
			if a.Values == nil {
				a.Values = map[string][]Word{}
			}
			a.Values[o.name] = append(a.Values[o.name], ops[0])
			if o.kind != data {
				a.use(o.kind, ops[0])
			}
			ops = ops[1:]
		}
		a.Operands = ops
	}
	for _, f := range a.Values["-f"] {
		archive(f)
	}
	a.checkpoint()
	early := a.inFrontOfC(mode)
	for _, f := range a.Values["-C"] {
		for _, name := range early {
			a.use(tree, name)
		}
		a.use(reads, f)
		if mode == 'x' {
			a.use(cuts, f)
		}
		a.Chdir(f) // the next one begins there
		for _, list := range a.Values["-T"] {
			a.listed(treeNames, list) // the names are of there
		}
	}
	switch mode {
	case 'x':
		a.transformed()
		if a.Effects["absolute"] || !strings.HasPrefix(first(args), "-") && strings.Contains(first(args), "P") {
			a.anywhere()
		}
		if len(a.Values["-C"]) == 0 && !a.Effects["stdout"] {
			a.use(writes, Literal(".", a.At))
		}
		if !a.Effects["stdout"] {
			for _, f := range a.Operands {
				a.use(writes, f)
			}
		}
	case 't':
	default:
		for _, f := range a.Operands {
			if f.Known && strings.HasPrefix(f.Text, "@") {
				f = f.Sub(f.Text[1:])
			}
			a.use(tree, f)
			if a.Effects["move"] {
				a.use(cuts, f)
			}
		}
	}
}

// transformed writes below the directories that --transform puts in front of the names: s,^,DIR/,.
func (a *Call) transformed() {
	for _, f := range a.Values["--transform"] {
		for expr := range strings.SplitSeq(f.Text, ";") {
			if len(expr) < 2 || expr[0] != 's' {
				continue
			}
			parts := strings.Split(expr[2:], expr[1:2])
			if len(parts) < 2 || !strings.ContainsAny(parts[1], "/.") {
				continue
			}
			to := f.Sub(parts[1])
			if !f.Known || strings.ContainsAny(parts[1], `\&`) {
				to = Word{Text: "(names that " + a.Name + " --transform makes)", At: f.At}
			}
			a.use(cuts, to)
		}
	}
}

// inFrontOfC returns the files of an archive that may stand in front of a -C: they are below the directory of their
// place, which is any of those that are gone through.
func (a *Call) inFrontOfC(mode byte) (early []Word) {
	dirs := a.Values["-C"]
	if mode == 'x' || mode == 't' || len(dirs) == 0 {
		return nil
	}
	place := func(f Word) int { return slices.IndexFunc(a.Argv, func(w Word) bool { return w.At == f.At }) }
	last := place(dirs[len(dirs)-1])
	for _, f := range a.Operands {
		if place(f) <= last { // all places are one inside of an argument
			early = append(early, f)
		}
	}
	return early
}

func tarMode(args []Word, effects map[string]bool) byte {
	switch {
	case effects["create"]:
		return 'c'
	case effects["extract"]:
		return 'x'
	case effects["list"]:
		return 't'
	}
	if len(args) > 0 && !strings.HasPrefix(args[0].Text, "-") {
		switch {
		case strings.ContainsAny(args[0].Text, "crAu"):
			return 'c'
		case strings.Contains(args[0].Text, "x"):
			return 'x'
		case strings.ContainsAny(args[0].Text, "td"):
			return 't'
		}
	}
	return 'c'
}

func (a *Call) checkpoint() {
	for name, list := range a.Values {
		if !strings.HasPrefix(name, "--checkpoint-") && name != "--checkpoint-action" {
			continue
		}
		for _, f := range list {
			if !f.Known {
				a.Opaque("inline_code", "tar runs an action that is only known when it runs", f.At)
			}
			if cmd, ok := strings.CutPrefix(f.Text, "exec="); ok {
				a.Run(f.Sub(cmd))
			}
		}
	}
}

func doZip(a *Call) {
	// -TT is the command that tests the archive.
	for i, f := range a.Argv[1:] {
		if cmd, ok := strings.CutPrefix(f.Text, "-TT"); ok && cmd != "" {
			a.Run(f.Sub(cmd))
		}
		if (f.Is("-TT") || f.Is("--unzip-command")) && i+2 < len(a.Argv) {
			a.Run(a.Argv[i+2])
		}
		if len(f.Text) > 2 && f.Text[0] == '-' && f.Text[1] != '-' &&
			strings.Trim(f.Text[1:], "@qrvjXyu0123456789") == "" {
			if strings.Contains(f.Text, "@") {
				a.listed(treeNames, Literal("-", a.At))
			}
		}
	}
	a.UseOperands(a.Operands)
	if a.Effects["move"] && len(a.Operands) > 1 {
		for _, f := range a.Operands[1:] {
			a.use(cuts, f)
		}
	}
}

func doUnzip(a *Call) {
	for _, f := range a.Argv[1:] {
		if strings.HasPrefix(f.Text, "-") && strings.Contains(f.Text, ":") {
			a.anywhere() // -: takes .. in names
		}
	}
	a.UseOperands(a.Operands)
	if len(a.Values["-d"]) == 0 && !a.Effects["list"] && a.Name != "zipinfo" {
		a.use(writes, Literal(".", a.At))
	}
}

// anywhere is an archive whose names may begin at the root or leave the directory.
func (a *Call) anywhere() {
	a.File(Word{Text: "(names in the archive)", At: a.At}, Write, false)
}

func first(args []Word) string {
	if len(args) == 0 {
		return ""
	}
	return args[0].Text
}

// doCompress: with -c and -t files are read, else replaced.
func doCompress(a *Call) {
	for _, f := range a.Operands {
		k := both
		if a.Effects["tostdout"] {
			k = reads
		}
		if a.Effects["rec"] {
			k = cuts
		}
		a.use(k, f)
	}
}

func doCpio(a *Call) {
	if !a.Effects["extract"] { // it is told the names on its input
		names := a.In.Printed + " " + a.In.Text
		for name := range strings.FieldsSeq(names) {
			a.use(reads, Literal(name, a.At))
		}
		if names == " " || a.In.Source != "" {
			a.listed(treeNames, Literal("-", a.At))
		}
	}
	if a.Effects["extract"] && !a.Effects["below"] {
		a.anywhere()
	}
	if a.Effects["extract"] || a.Effects["pass"] {
		a.use(writes, Literal(".", a.At))
		a.UseOperands(a.Operands)
	}
}

// doPackages: names of packages are data, archives are read.
func doPackages(a *Call) {
	for _, f := range a.Operands {
		if strings.ContainsAny(f.Text, "/") || strings.HasSuffix(f.Text, ".deb") || strings.HasSuffix(f.Text, ".rpm") {
			if a.Effects["query"] {
				continue
			}
			a.use(maybe, f)
		}
	}
}
