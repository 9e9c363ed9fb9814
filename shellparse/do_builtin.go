package shellparse

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// These are the builtins that read, set and unset what the shell knows.

func doRead(a *act) {
	if a.Name == "mapfile" || a.Name == "readarray" {
		for _, f := range a.Values["-C"] {
			a.calls(f, a.callbackWords()...)
		}
	}
	names := slices.DeleteFunc(slices.Clone(a.Operands), func(f program.Word) bool {
		return !f.Known && strings.HasPrefix(f.Skeleton, "-") // only the dash of the option is known
	})
	if in := a.In; in.Text != "" {
		a.w.noteSuspect(program.Literal(in.Text, in.At))
		if a.readsLine(names) {
			return
		}
	}
	for _, list := range a.Values {
		for _, f := range list {
			a.w.nameArgument("an option of "+a.Name, f)
		}
	}
	names = append(names, a.Values["-a"]...)
	for _, f := range names {
		a.w.nameArgument(a.Name, f)
		if f.Lit() == "" {
			a.sc.forgetAll()
			continue
		}
		a.w.unknownValue(a.sc, variableOf(f.Text), f.At)
		a.readsParts(f)
	}
	if paths := a.In.Paths; len(paths) == 1 && len(names) == 1 && names[0].Lit() != "" && a.Name == "read" &&
		len(a.Values["-d"])+len(a.Values["-a"]) == 0 {
		root := paths[0]
		root.Tree = true
		if strings.Contains(names[0].Text, "[") {
			return
		}
		a.w.assign(a.sc, names[0].Text, value{words: []program.Word{root}}, names[0].At)
	}
	if len(names) == 0 {
		a.noName()
	}
}

// readsLine follows "read -r x" if its input is known, wholly or in part. It takes a line of the input, or as much
// as -d and -n say.
func (a *act) readsLine(names []program.Word) bool {
	if !a.In.Own || a.Name != "read" || len(names) != 1 || names[0].Lit() == "" ||
		strings.Contains(names[0].Text, "[") || a.sc.ifs || len(a.call.env) > 0 {
		return false
	}
	text, end, most := a.In.Text, "\n", -1
	for name, list := range a.Values {
		f := list[len(list)-1]
		if !f.Known {
			return false
		}
		switch name {
		case "-d", "-n", "-t":
			if a.w.posix {
				return false // dash refuses them, and sets nothing
			}
		}
		switch name {
		case "-d":
			end = "\x00"
			if f.Text != "" {
				end = f.Text[:1]
			}
		case "-n":
			n, err := strconv.Atoi(f.Text)
			if err != nil || n < 0 {
				return false
			}
			most = n
		case "-t": // read refuses text that is no number, and with 0 it reads nothing
			if n, err := strconv.ParseUint(f.Text, 10, 31); err != nil || n == 0 {
				return false
			}
		case "-p":
		default:
			return false
		}
	}
	text = readUntil(text, end[0], a.Effects["raw"])
	if most >= 0 && most < len(text) {
		if len(text) != utf8.RuneCountInString(text) {
			return false
		}
		text = text[:most]
	}
	f := program.Literal(strings.Trim(text, " \t\n"), a.In.At)
	if a.In.Kind == program.Piped && strings.Contains(text, "_") {
		f = program.Word{Text: names[0].Text, Skeleton: f.Text, At: f.At}
	}
	a.w.assign(a.sc, names[0].Text, value{words: []program.Word{f}}, names[0].At)
	return true
}

// readsParts keeps what is known of a value that is read from known text: the lines of mapfile, the words of "read
// -a", and a part of the text for each of several names.
func (a *act) readsParts(name program.Word) {
	text := a.In.Text
	if text == "" || !a.In.Own || name.Lit() == "" || strings.Contains(name.Text, "[") {
		return
	}
	v := value{array: true}
	switch {
	case a.Name != "read":
		for line := range strings.Lines(text) {
			v.words = append(v.words, program.Literal(strings.TrimRight(line, "\n"), name.At))
		}
	case len(a.Values["-a"]) > 0:
		for _, word := range strings.Fields(readUntil(text, '\n', a.Effects["raw"])) {
			v.words = append(v.words, program.Literal(word, name.At))
		}
	default:
		v = value{words: []program.Word{program.Literal(strings.TrimSpace(text), name.At)}}
	}
	a.w.assign(a.sc, name.Text, v, name.At)
	a.sc.doubt(name.Text) // options may choose among the lines, or drop some
}

// readUntil returns the text up to a delimiter. Without -r a backslash quotes one character, and continues a line.
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

// doData handles a command whose words are data. What it prints may become a value.
func doData(a *act) {
	for _, f := range a.Operands {
		a.w.noteSuspect(f)
	}
}

func doPrintf(a *act) {
	doData(a)
	if a.w.posix {
		return // dash has no -v
	}
	for _, v := range a.Values["-v"] {
		if !v.Known && len(a.Operands) > 0 {
			a.w.nameArgument("printf -v", a.Operands[0])
		}
	}
	for _, f := range a.Values["-v"] {
		a.w.nameArgument("printf -v", f)
		if f.Lit() == "" {
			a.sc.forgetAll()
			continue
		}
		// An unknown option ends printf before it assigns, so only the plain form is followed.
		plain := len(a.Argv) == 5 && a.Argv[1].Is("-v") || len(a.Argv) == 4 && a.Argv[1].Is("-v"+f.Text)
		plain = plain && !strings.Contains(f.Text, "[") // else it sets one element
		if plain && len(a.Operands) == 2 && a.Operands[0].Is("%s") && a.Operands[1].Known {
			a.w.assign(a.sc, f.Text, value{words: []program.Word{a.Operands[1]}}, f.At)
			continue
		}
		a.w.unknownValue(a.sc, variableOf(f.Text), f.At)
	}
}

// doFc handles fc, which runs what the history holds.
func doFc(a *act) {
	if !a.Effects["data"] {
		a.Opaque("dynamic_eval", "fc runs a line of the history, which is only known when it runs", a.At)
	}
}

// doJobs handles jobs: with -x it runs the words after it.
func doJobs(a *act) {
	for i, f := range a.Argv {
		if i > 0 && strings.HasPrefix(f.Text, "-") && strings.Contains(f.Text, "x") {
			a.Start(a.Argv[i+1:])
			return
		}
	}
}

func doWait(a *act) {
	for _, f := range a.Values["-p"] {
		a.w.nameArgument("wait -p", f)
		if f.Lit() == "" {
			a.sc.forgetAll()
			continue
		}
		a.w.unknownValue(a.sc, variableOf(f.Text), f.At)
	}
	for _, f := range a.Operands {
		a.w.nameArgument("wait", f) // behind -p"$x" with an empty x
	}
}

// callbackWords returns what mapfile -C puts behind the callback: an index and a line of the input.
func (a *act) callbackWords() (all []string) {
	const unknown = `"$SANDBOXD_UNKNOWN"` // a variable that nothing sets
	if lines := slices.Collect(strings.Lines(a.In.Text)); a.In.Own && len(lines) <= maxUnroll &&
		a.In.Kind == program.HereText && len(a.Values["-d"])+len(a.Values["-u"]) == 0 {
		for _, line := range lines {
			if a.Effects["trims"] {
				line = strings.TrimSuffix(line, "\n")
			}
			all = append(all, "0 "+program.Quoted([]program.Word{program.Literal(line, a.In.At)}).Text)
		}
	}
	return append(all, unknown+" "+unknown)
}

// calls follows text that a builtin runs in this shell, any number of times, with some of these words behind it.
func (a *act) calls(f program.Word, words ...string) {
	w, sc := a.w, a.sc
	if f = f.Numbers(); f.Lit() == "" {
		a.Opaque("dynamic_eval", a.Name+" -C executes text that is only known when it runs: "+f.Text, f.At)
		return
	}
	a.deeper(f.At)
	a.Inner = append(a.Inner, func() {
		w.nested++
		w.loop(sc, func(round *scope) {
			for _, behind := range words {
				at := f.At
				if err := w.program(f.Text+" "+behind, round, &at); err != nil {
					w.err = nil
					panicErr(w, err, at)
				}
			}
		})
		w.nested--
	})
}

// doCompgen handles compgen, which expands a list of words as the shell does, and calls programs and functions.
func doCompgen(a *act) {
	for _, f := range a.Values["-C"] {
		if a.Name == "complete" { // it runs when a person completes a word
			a.Run(f)
			continue
		}
		word := program.Literal("", a.At)
		if len(a.Operands) > 0 {
			word = a.Operands[0]
		}
		a.calls(f, "'compgen' "+program.Quoted([]program.Word{word}).Text+" ''")
	}
	for _, f := range a.Values["-W"] {
		if !f.Known || strings.ContainsAny(f.Text, "$`") {
			a.Opaque("dynamic_eval", a.Name+" -W expands its words: "+f.Text, f.At)
		}
	}
	if fs := a.Values["-F"]; len(fs) > 0 && a.Name == "compgen" {
		a.Opaque("dynamic_eval", "compgen -F calls a function", fs[0].At)
	}
}

// doLet handles let after an assignment or "builtin". Its words are arithmetic, and may set any variable.
func doLet(a *act) {
	for _, f := range a.Operands {
		a.w.nameArgument("let", f)
		a.w.noteSuspect(f)
		a.w.evaluates(f.At)
	}
	a.sc.forgetAll()
}

func doUnset(a *act) {
	for _, f := range a.Operands {
		a.w.nameArgument("unset", f)
		a.w.noteUnset(variableOf(f.Lit()))
		if f.Lit() == "" {
			a.sc.forgetAll()
		}
		a.sc.forget(variableOf(f.Text))
		a.sc.withhold(variableOf(f.Text))
		a.w.unset = append(a.w.unset, f.Lit())
		maybeAll(a.sc.funcs)
		if f.Text == "IFS" {
			a.sc.ifs = len(a.w.calls) > 0 // blanks split words, unless an outer IFS takes its place
		}
	}
}

// doSet follows set -e and set -- a b.
func doSet(a *act) {
	args, before := a.Argv[1:], a.sc.errexit
	for i := 0; i < len(args); i++ {
		f := args[i]
		switch {
		case f.Is("--") || f.Is("-"):
			a.sc.args = known(args[i+1:])
			a.w.setsArgs(args[i+1:])
			return
		case !f.Known:
			a.sc.args = nil
			a.sc.noErrexit(a.w)
			return
		case strings.HasPrefix(f.Text, "-") && strings.Contains(f.Text, "r"):
			a.shellOption(program.Literal("restricted", f.At))
			a.sc.args, a.sc.errexit = nil, false
			return
		case strings.Trim(strings.TrimLeft(f.Text, "-+"), "abefhikmnoptuvxBCEHPT") != "" &&
			strings.ContainsAny(f.Text[:min(1, len(f.Text))], "-+"):
			// set refuses the option, and sets nothing
			a.sc.args, a.sc.errexit = nil, a.sc.errexit && before
			return
		case strings.HasPrefix(f.Text, "-") && strings.Contains(f.Text, "k"),
			strings.HasPrefix(f.Text, "+") && strings.Contains(f.Text, "B"):
			a.Opaque("shell_option", "set "+f.Text+" changes how the line is read", f.At)
			return
		case strings.HasPrefix(f.Text, "-") && f.Text != "-":
			if strings.Contains(f.Text, "e") {
				a.sc.errexit = !a.w.goesOn
			}
			a.sc.physical = a.sc.physical || strings.Contains(f.Text, "P")
			if strings.Contains(f.Text, "a") || i+1 < len(args) && args[i+1].Is("allexport") {
				a.w.handsDown = true
			}
			for range strings.Count(f.Text, "o") {
				if i+1 == len(args) || listsOptions(args[i+1]) {
					break
				}
				i++
				if args[i].Is("braceexpand") {
					continue // it is on
				}
				if args[i].Is("errexit") {
					a.sc.errexit = !a.w.goesOn
				}
				a.shellOption(args[i])
				if !slices.Contains(setOptions, args[i].Lit()) {
					a.refusedSet(args[i])
					return
				}
			}
			if strings.ContainsAny(f.Text, "H") {
				a.Opaque("shell_option", "history expansion changes how the line is read", f.At)
			}
		case strings.HasPrefix(f.Text, "+"):
			if strings.ContainsAny(f.Text, "eo") {
				a.sc.noErrexit(a.w)
			}
			for range strings.Count(f.Text, "o") {
				if i+1 == len(args) || listsOptions(args[i+1]) {
					break
				}
				i++
				if !args[i].Is("posix") {
					a.shellOption(args[i])
				}
				if !slices.Contains(setOptions, args[i].Lit()) {
					a.refusedSet(args[i])
					return
				}
			}
		default:
			a.sc.args = known(args[i:])
			a.w.setsArgs(args[i:])
			return
		}
	}
}

// refusedSet is set with an option that bash does not have: it sets nothing. Another shell may have it.
func (a *act) refusedSet(option program.Word) {
	if !option.Known || a.w.posix {
		a.sc.args = nil
	}
}

// listsOptions reports whether "set -o" in front of a word prints the options, and does not take the word for one.
func listsOptions(f program.Word) bool {
	return f.Is("") || strings.HasPrefix(f.Lit(), "-") || strings.HasPrefix(f.Lit(), "+")
}

// setOptions are the names that "set -o" knows.
var setOptions = []string{
	"allexport", "braceexpand", "emacs", "errexit", "errtrace", "functrace", "hashall", "histexpand",
	"history", "ignoreeof", "interactive-comments", "keyword", "monitor", "noclobber", "noexec", "noglob", "nolog",
	"notify", "nounset", "onecmd", "physical", "pipefail", "posix", "privileged", "verbose", "vi", "xtrace",
}

// doDeclare handles declare and its kin after builtin or command, where they are ordinary words.
func doDeclare(a *act) {
	d := a.w.newDeclaration(a.Name)
	defer func() { a.w.handsDown = a.w.handsDown || d.functions && d.exports }()
	for _, f := range a.Argv[1:] {
		a.w.nameArgument(a.Name, f)
		a.w.declOption(&d, f, a.sc)
		if d.exports && !d.functions && f.Lit() != "" {
			name, _, _ := strings.Cut(f.Text, "=")
			a.w.exportVar(a.sc, name, f.At)
		}
	}
}

func doShift(a *act) {
	n := 1
	if len(a.Operands) > 0 {
		var err error
		if n, err = strconv.Atoi(a.Operands[0].Lit()); err != nil {
			n = -1
		}
	}
	if n < 0 || n > len(a.sc.args) || !program.Placed(a.sc.args, n) {
		a.sc.args = nil
		return
	}
	a.sc.args = a.sc.args[n:]
}

func doShopt(a *act) {
	set, off, ofSet := false, false, false
	for _, f := range a.Argv[1:] {
		if strings.HasPrefix(f.Text, "-") {
			off = off || strings.Contains(f.Text, "u")
			set = set || off || strings.Contains(f.Text, "s")
			ofSet = ofSet || strings.Contains(f.Text, "o")
			continue
		}
		if set && !(off && f.Is("nocaseglob")) { // it is off unless something sets it
			a.shellOption(f)
		}
	}
	if set && ofSet { // shopt -uo errexit
		a.sc.noErrexit(a.w)
	}
}

func doAlias(a *act) {
	for _, f := range a.Operands {
		if !f.Known || strings.Contains(f.Text, "=") {
			a.w.opaque(Opaque{
				Code: "shell_option", Message: "an alias changes what a word runs: " + f.Text,
				Hint: "define a function", Command: "alias", At: f.At, CommandsOnly: !a.w.posix, // dash uses them
			})
		}
	}
}

// doEnable handles enable: without a builtin its name is another program, or none.
func doEnable(a *act) {
	if len(a.Values["-f"]) > 0 {
		a.Opaque("shell_option", "enable -f loads code into the shell", a.At)
	}
	off, followed := false, false
	for _, f := range a.Argv[1:] {
		switch {
		case !f.Known:
			off, followed = true, true
		case strings.HasPrefix(f.Text, "-"):
			off = off || strings.Contains(f.Text, "n")
		case f.Text != "echo" && f.Text != "kill" && f.Text != "test" && f.Text != "[": // programs that do the same
			followed = true
		}
	}
	if off && followed {
		a.Opaque("shell_option", "enable -n makes the name of a builtin another program", a.At)
	}
}
