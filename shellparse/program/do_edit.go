package program

import "strings"

// doVim: +command words, and a terminal that can run anything.
func doVim(a *Call) {
	for i, f := range a.Argv[1:] {
		if !f.Is("-c") && !f.Is("--cmd") || i+2 >= len(a.Argv) {
			continue
		}
		if rest, ok := strings.CutPrefix(strings.TrimLeft(a.Argv[i+2].Text, ": "), "!"); ok {
			a.Run(a.Argv[i+2].Sub(rest))
		}
	}
	var ops []Word
	for _, f := range a.Operands {
		if strings.HasPrefix(f.Text, "+") && len(f.Text) > 1 && !AllDigits(f.Text[1:]) {
			a.Opaque("inline_code", a.Name+" executes "+f.Text, f.At)
			continue
		}
		ops = append(ops, f)
	}
	if a.In.Kind != Inherited && len(ops) > 0 && ops[0].Is("-") || a.In.Kind == Piped ||
		a.In.Kind == HereText {
		a.Opaque("inline_code", a.Name+" takes what it is told from its standard input", a.At)
	}
	for _, f := range a.Values["-S"] {
		a.Code(f)
	}
	for _, f := range a.Values["-s"] {
		a.Opaque("inline_code", a.Name+" -s types what a file holds", f.At)
	}
	a.UseOperands(ops)
}

// doEd: commands come from standard input, and "!" runs a program.
func doEd(a *Call) {
	for _, f := range a.Operands {
		if strings.HasPrefix(f.Text, "!") {
			a.Run(f.Sub(f.Text[1:]))
			return
		}
	}
	a.UseOperands(a.Operands)
	if in := a.In; in.Kind != Inherited {
		if in.Kind == HereText && !strings.Contains(in.Text, "!") && !edFiles(in.Text) {
			return
		}
		a.Opaque("inline_code", a.Name+" takes what it is told from its standard input", a.At)
	}
}

// edFiles reports whether a script of ed opens other files.
func edFiles(script string) bool {
	for line := range strings.SplitSeq(strings.ReplaceAll(script, "\t", " "), "\n") {
		for _, c := range []string{"e ", "E ", "r ", "f ", "w ", "W ", "wq "} {
			if strings.Contains(line, c) {
				return true
			}
		}
	}
	return false
}

func doLess(a *Call) {
	var ops []Word
	for _, f := range a.Operands {
		if strings.HasPrefix(f.Text, "+") {
			if strings.ContainsAny(f.Text, "!|v") {
				a.Opaque("inline_code", "less executes "+f.Text, f.At)
			}
			continue
		}
		ops = append(ops, f)
	}
	a.UseOperands(ops)
}

func doMan(a *Call) {
	for _, f := range a.Operands {
		if strings.Contains(f.Text, "/") || a.Effects["local"] {
			a.use(reads, f)
		}
	}
}
