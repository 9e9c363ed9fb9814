package shellparse

import "strings"

// doTar: what the archive and the operands are depends on the mode; -C moves what
// follows it.
func doTar(a *act) {
	args := a.call.argv[1:]
	mode := tarMode(args, a.effects)
	create := mode == 'c'
	dirs := a.sc
	archive := func(f field) {
		switch {
		case f.is("-"):
		case f.known && !strings.HasPrefix(f.text, "/") && !strings.HasPrefix(f.text, ".") && strings.Contains(before(f.text, "/"), ":"):
			a.host(before(f.text, ":"))
		case create:
			a.use(writes, f)
		default:
			a.use(reads, f)
		}
	}
	// The cluster without a dash: letters that take a value take the next words.
	if len(args) > 0 && args[0].known && !strings.HasPrefix(args[0].text, "-") {
		ops := a.operands
		if len(ops) > 0 {
			ops = ops[1:]
		}
		for _, c := range args[0].text {
			o := a.spec.opts["-"+string(c)]
			if o.kind == flag || o.optional || len(ops) == 0 {
				continue
			}
			if a.values == nil {
				a.values = map[string][]field{}
			}
			a.values[o.name] = append(a.values[o.name], ops[0])
			if o.kind != data {
				a.use(o.kind, ops[0])
			}
			ops = ops[1:]
		}
		a.operands = ops
	}
	for _, f := range a.values["-f"] {
		archive(f)
	}
	a.checkpoint()
	for _, f := range a.values["-C"] {
		a.chdir(f)
		if mode == 'x' {
			a.sc = dirs
			a.use(cuts, f)
			a.sc = a.sc.clone()
			a.sc.dirs = moveTo(a.sc.dirs, f)
		}
	}
	switch mode {
	case 'x':
		if len(a.values["-C"]) == 0 && !a.effects["stdout"] {
			a.use(writes, literal(".", a.cmd.At))
		}
	case 't':
	default:
		for _, f := range a.operands {
			if f.known && strings.HasPrefix(f.text, "@") {
				f = f.sub(f.text[1:])
			}
			a.use(tree, f)
			if a.effects["move"] {
				a.use(cuts, f)
			}
		}
	}
}

func tarMode(args []field, effects map[string]bool) byte {
	switch {
	case effects["create"]:
		return 'c'
	case effects["extract"]:
		return 'x'
	case effects["list"]:
		return 't'
	}
	if len(args) > 0 && !strings.HasPrefix(args[0].text, "-") {
		switch {
		case strings.ContainsAny(args[0].text, "crAu"):
			return 'c'
		case strings.Contains(args[0].text, "x"):
			return 'x'
		case strings.ContainsAny(args[0].text, "td"):
			return 't'
		}
	}
	return 'c'
}

func (a *act) checkpoint() {
	for name, list := range a.values {
		if !strings.HasPrefix(name, "--checkpoint-") && name != "--checkpoint-action" {
			continue
		}
		for _, f := range list {
			if !f.known {
				a.opaque("inline_code", "tar runs an action that is only known when it runs", f.at)
			}
			if cmd, ok := strings.CutPrefix(f.text, "exec="); ok {
				a.shellText(f.sub(cmd), nil)
			}
		}
	}
}

func doZip(a *act) {
	// -TT is the command that tests the archive.
	for i, f := range a.call.argv[1:] {
		if cmd, ok := strings.CutPrefix(f.text, "-TT"); ok && cmd != "" {
			a.shellText(f.sub(cmd), nil)
		}
		if (f.is("-TT") || f.is("--unzip-command")) && i+2 < len(a.call.argv) {
			a.shellText(a.call.argv[i+2], nil)
		}
	}
	a.useOperands(a.operands)
	if a.effects["move"] && len(a.operands) > 1 {
		for _, f := range a.operands[1:] {
			a.use(cuts, f)
		}
	}
}

func doUnzip(a *act) {
	a.useOperands(a.operands)
	if len(a.values["-d"]) == 0 && !a.effects["list"] && a.cmd.Name != "zipinfo" {
		a.use(writes, literal(".", a.cmd.At))
	}
}

// doCompress: with -c and -t files are read, else replaced.
func doCompress(a *act) {
	for _, f := range a.operands {
		k := both
		if a.effects["tostdout"] {
			k = reads
		}
		if a.effects["rec"] {
			k = cuts
		}
		a.use(k, f)
	}
}

func doCpio(a *act) {
	if a.effects["extract"] {
		a.use(writes, literal(".", a.cmd.At))
		a.useOperands(a.operands)
	}
}

// doPackages: names of packages are data, archives are read.
func doPackages(a *act) {
	for _, f := range a.operands {
		if strings.ContainsAny(f.text, "/") || strings.HasSuffix(f.text, ".deb") || strings.HasSuffix(f.text, ".rpm") {
			if a.effects["query"] {
				continue
			}
			a.use(maybe, f)
		}
	}
}
