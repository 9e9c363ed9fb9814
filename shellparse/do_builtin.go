package shellparse

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The builtins that test, read, set and unset what the shell knows.

func doTest(a *act) {
	all := a.call.argv[1:]
	for i, f := range all {
		if i+1 >= len(all) {
			continue
		}
		next := all[i+1]
		if !f.known {
			a.w.nameArgument(a.cmd.Name, next) // f may be -v
			continue
		}
		switch f.text {
		case "-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-b", "-c", "-p", "-S", "-g", "-u", "-k", "-O", "-G", "-N":
			if i+2 < len(all) && isOperator(all[i+1].text) && !isOperator(all[i].text) && i+2 < len(all) && len(all) > 3 {
				continue
			}
			a.file(next, Read, false)
		case "-nt", "-ot", "-ef":
			if i > 0 {
				a.file(all[i-1], Read, false)
			}
			a.file(next, Read, false)
		case "-v", "-R":
			a.w.nameArgument(a.cmd.Name+" -v", next)
		case "-eq", "-ne", "-lt", "-le", "-gt", "-ge":
			// Only numbers are read here: test does not evaluate them.
		}
	}
}

func isOperator(s string) bool {
	switch s {
	case "=", "==", "!=", "<", ">", "-a", "-o", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef":
		return true
	}
	return false
}

func doRead(a *act) {
	names := slices.DeleteFunc(slices.Clone(a.operands), func(f field) bool {
		return !f.known && strings.HasPrefix(f.skeleton, "-") // flags of which only the dash is known
	})
	if in := a.call.in; in.text != "" {
		a.w.noteSuspect(literal(in.text, in.at))
		if a.readsLine(names) {
			return
		}
	}
	for _, list := range a.values {
		for _, f := range list {
			a.w.nameArgument(a.cmd.Name, f)
		}
	}
	names = append(names, a.values["-a"]...)
	for _, f := range names {
		a.w.nameArgument(a.cmd.Name, f)
		if f.lit() == "" {
			a.sc.forgetAll()
			continue
		}
		a.w.unknownValue(a.sc, before(f.text, "["), f.at)
	}
	if paths := a.call.in.paths; len(paths) == 1 && len(names) == 1 && names[0].lit() != "" && a.cmd.Name == "read" && len(a.values["-d"])+len(a.values["-a"]) == 0 {
		root := paths[0]
		root.tree = true
		a.w.assign(a.sc, names[0].text, value{words: []field{root}}, names[0].at)
	}
	if len(names) == 0 {
		a.sc.forget("REPLY")
		a.sc.forget("MAPFILE")
	}
}

// readsLine follows "read -r x" of text that is known, or in parts, of which it
// takes a line, or what -d and -n say.
func (a *act) readsLine(names []field) bool {
	if !a.call.in.own || a.cmd.Name != "read" || len(names) != 1 || names[0].lit() == "" || strings.Contains(names[0].text, "[") || a.sc.ifs || len(a.call.env) > 0 {
		return false
	}
	text, end, most := a.call.in.text, "\n", -1
	for name, list := range a.values {
		f := list[len(list)-1]
		if !f.known {
			return false
		}
		switch name {
		case "-d":
			end = "\x00"
			if f.text != "" {
				end = f.text[:1]
			}
		case "-n":
			n, err := strconv.Atoi(f.text)
			if err != nil {
				return false
			}
			most = n
		case "-p", "-t":
		default:
			return false
		}
	}
	text = readUntil(text, end[0], a.effects["raw"])
	if most >= 0 && most < len(text) {
		if len(text) != utf8.RuneCountInString(text) {
			return false
		}
		text = text[:most]
	}
	f := literal(strings.Trim(text, " \t\n"), a.call.in.at)
	if a.call.in.kind == piped && strings.Contains(text, "_") {
		f = field{text: names[0].text, skeleton: f.text, at: f.at}
	}
	a.w.assign(a.sc, names[0].text, value{words: []field{f}}, names[0].at)
	return true
}

// readUntil is text up to a delimiter; without -r a backslash quotes one character
// and continues a line.
func readUntil(text string, end byte, raw bool) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && !raw:
			if i++; i < len(text) && text[i] != '\n' {
				b.WriteByte(text[i])
			}
		case c == end:
			return b.String()
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// doData is a command whose words are data; what is printed may become a value.
func doData(a *act) {
	for _, f := range a.operands {
		a.w.noteSuspect(f)
	}
}

func doPrintf(a *act) {
	doData(a)
	for _, v := range a.values["-v"] {
		if !v.known && len(a.operands) > 0 {
			a.w.nameArgument("printf -v", a.operands[0])
		}
	}
	for _, f := range a.values["-v"] {
		a.w.nameArgument("printf -v", f)
		if f.lit() == "" {
			a.sc.forgetAll()
			continue
		}
		if len(a.operands) == 2 && a.operands[0].is("%s") && a.operands[1].known {
			a.w.assign(a.sc, f.text, value{words: []field{a.operands[1]}}, f.at)
			continue
		}
		a.w.unknownValue(a.sc, before(f.text, "["), f.at)
	}
}

// doFc is fc, which runs what the history holds.
func doFc(a *act) {
	if !a.effects["data"] {
		a.opaque("dynamic_eval", "fc runs a line of the history, which is only known when it runs", a.cmd.At)
	}
}

// doJobs: jobs -x runs the words behind it.
func doJobs(a *act) {
	for i, f := range a.call.argv {
		if i > 0 && strings.HasPrefix(f.text, "-") && strings.Contains(f.text, "x") {
			a.command(a.call.argv[i+1:])
			return
		}
	}
}

func doWait(a *act) {
	for _, f := range a.values["-p"] {
		a.w.nameArgument("wait -p", f)
		if f.lit() == "" {
			a.sc.forgetAll()
			continue
		}
		a.sc.forget(f.text)
	}
	for _, f := range a.operands {
		a.w.nameArgument("wait", f) // behind -p"$x" with an empty x
	}
}

// doCompgen: compgen expands a list of words as the shell does, and calls
// functions.
func doCompgen(a *act) {
	for _, f := range a.values["-W"] {
		if !f.known || strings.ContainsAny(f.text, "$`") {
			a.opaque("dynamic_eval", a.cmd.Name+" -W expands its words: "+f.text, f.at)
		}
	}
	if fs := a.values["-F"]; len(fs) > 0 && a.cmd.Name == "compgen" {
		a.opaque("dynamic_eval", "compgen -F calls a function", fs[0].at)
	}
}

// doLet is let reached as a command is, behind an assignment or "builtin": its
// words are arithmetic and may set any variable.
func doLet(a *act) {
	for _, f := range a.operands {
		a.w.nameArgument("let", f)
		a.w.noteSuspect(f)
		a.w.evaluates(f.at)
	}
	a.sc.forgetAll()
}

func doUnset(a *act) {
	for _, f := range a.operands {
		a.w.nameArgument("unset", f)
		if f.lit() == "" {
			a.sc.forgetAll()
		}
		a.sc.forget(before(f.text, "["))
		maybeAll(a.sc.funcs)
		if f.text == "IFS" {
			a.sc.ifs = false // unset IFS splits at blanks
		}
	}
}

// doSet follows set -e and set -- a b.
func doSet(a *act) {
	args := a.call.argv[1:]
	for i := 0; i < len(args); i++ {
		f := args[i]
		switch {
		case f.is("--") || f.is("-"):
			a.sc.args = known(args[i+1:])
			return
		case !f.known:
			a.sc.args = nil
			return
		case strings.HasPrefix(f.text, "-") && f.text != "-":
			if strings.Contains(f.text, "e") {
				a.sc.errexit = true
			}
			if strings.HasSuffix(f.text, "o") && i+1 < len(args) {
				i++
				if args[i].is("errexit") {
					a.sc.errexit = true
				}
				a.shellOption(args[i])
			}
			if strings.ContainsAny(f.text, "H") {
				a.opaque("shell_option", "history expansion changes how the line is read", f.at)
			}
		case strings.HasPrefix(f.text, "+"):
			a.sc.errexit = false
			if strings.HasSuffix(f.text, "o") {
				i++
			}
		default:
			a.sc.args = known(args[i:])
			return
		}
	}
}

func known(fs []field) []field {
	out := append([]field{}, fs...)
	for _, f := range fs {
		if f.many {
			return nil
		}
	}
	return out
}

// doDeclare is declare and its kin behind builtin or command, where they are
// words like any other.
func doDeclare(a *act) {
	exports, functions := a.cmd.Name == "export", false
	for _, f := range a.call.argv[1:] {
		a.w.nameArgument(a.cmd.Name, f)
		a.w.declOption(a.cmd.Name, f, &exports, &functions, a.sc)
		if exports && !functions && f.lit() != "" && f.text[0] != '-' {
			a.w.exportVar(a.sc, before(f.text, "="), f.at)
		}
	}
}

func doShift(a *act) {
	n := 1
	if len(a.operands) > 0 {
		var err error
		if n, err = strconv.Atoi(a.operands[0].lit()); err != nil {
			n = -1
		}
	}
	if n < 0 || n > len(a.sc.args) {
		a.sc.args = nil
		return
	}
	a.sc.args = a.sc.args[n:]
}

func doShopt(a *act) {
	set := false
	for _, f := range a.call.argv[1:] {
		if strings.HasPrefix(f.text, "-") {
			set = set || strings.Contains(f.text, "s") || strings.Contains(f.text, "u")
			continue
		}
		if set {
			a.shellOption(f)
		}
	}
}

func doAlias(a *act) {
	for _, f := range a.operands {
		if !f.known || strings.Contains(f.text, "=") {
			a.w.opaque(Opaque{Code: "shell_option", Message: "an alias changes what a word runs: " + f.text, Hint: "define a function", Command: "alias", At: f.at, CommandsOnly: true})
		}
	}
}

// doHash: hash -p gives a name to another program.
func doHash(a *act) {
	for _, f := range a.values["-p"] {
		a.opaque("unknown_command", "hash -p makes a name run "+f.text, f.at)
	}
}

func doEnable(a *act) {
	if len(a.values["-f"]) > 0 {
		a.opaque("shell_option", "enable -f loads code into the shell", a.cmd.At)
	}
}
