package shellparse

import "strings"

// doVim: +command words, and a terminal that can run anything.
func doVim(a *act) {
	var ops []field
	for _, f := range a.operands {
		if strings.HasPrefix(f.text, "+") && len(f.text) > 1 && !digits(f.text[1:]) {
			a.opaque("inline_code", a.cmd.Name+" executes "+f.text, f.at)
			continue
		}
		ops = append(ops, f)
	}
	if a.call.in.kind != inherited && len(ops) > 0 && ops[0].is("-") || a.call.in.kind == piped || a.call.in.kind == hereText {
		a.opaque("inline_code", a.cmd.Name+" takes what it is told from its standard input", a.cmd.At)
	}
	for _, f := range a.values["-s"] {
		a.opaque("inline_code", a.cmd.Name+" -s types what a file holds", f.at)
	}
	a.useOperands(ops)
}

// doEd: commands come from standard input, and "!" runs a program.
func doEd(a *act) {
	for _, f := range a.operands {
		if strings.HasPrefix(f.text, "!") {
			a.shellText(f.sub(f.text[1:]), nil)
			return
		}
	}
	a.useOperands(a.operands)
	if in := a.call.in; in.kind != inherited {
		if in.kind == hereText && !strings.Contains(in.text, "!") && !edFiles(in.text) {
			return
		}
		a.opaque("inline_code", a.cmd.Name+" takes what it is told from its standard input", a.cmd.At)
	}
}

// edFiles reports whether a script of ed opens other files.
func edFiles(script string) bool {
	for _, line := range strings.Split(script, "\n") {
		for _, c := range []string{"e ", "E ", "r ", "f ", "w ", "W "} {
			if strings.Contains(line, c) {
				return true
			}
		}
	}
	return false
}

func doLess(a *act) {
	var ops []field
	for _, f := range a.operands {
		if strings.HasPrefix(f.text, "+") {
			if strings.ContainsAny(f.text, "!|v") {
				a.opaque("inline_code", "less executes "+f.text, f.at)
			}
			continue
		}
		ops = append(ops, f)
	}
	a.useOperands(ops)
}

func doMan(a *act) {
	for _, f := range a.operands {
		if strings.Contains(f.text, "/") || a.effects["local"] {
			a.use(reads, f)
		}
	}
}
