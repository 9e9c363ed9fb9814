package shellparse

import "strings"

func doSudo(a *act) {
	switch {
	case a.effects["edit"]:
		for _, f := range a.operands {
			a.use(both, f)
		}
	case len(a.operands) == 0 && a.effects["login"]:
		a.stdinCode()
	case a.effects["login"] && len(a.operands) > 0:
		a.joined(a.operands)
	default:
		a.useOperands(a.operands)
	}
}

// doSu: a user, then words for the user's shell.
func doSu(a *act) {
	ops := a.operands
	if len(ops) > 0 && ops[0].is("-") {
		ops = ops[1:]
	}
	for i, f := range ops {
		if (f.is("-c") || f.is("--command")) && i+1 < len(ops) {
			a.shellText(ops[i+1], nil)
		}
	}
	if a.cmd.Name == "runuser" && len(a.values["-u"]) > 0 {
		a.command(ops)
		return
	}
	if len(a.inner) == 0 {
		a.stdinCode()
	}
}

func doGdb(a *act) {
	for _, f := range a.call.argv[1:] {
		if f.is("--args") || f.is("-args") || f.is("--") {
			break
		}
		for _, p := range []string{"ex", "iex", "eval-command", "init-eval-command", "x=", "command", "ix", "init-command"} {
			if strings.HasPrefix(strings.TrimLeft(f.text, "-"), p) && strings.HasPrefix(f.text, "-") {
				a.opaque("inline_code", "gdb executes "+f.text, f.at)
			}
		}
	}
	if a.call.in.kind != inherited {
		a.opaque("inline_code", "gdb executes its standard input", a.cmd.At)
	}
	for i, f := range a.call.argv[1:] {
		if f.is("--args") || f.is("-args") || f.is("--") {
			a.command(a.call.argv[i+2:])
			return
		}
	}
	if len(a.operands) > 0 {
		a.command(a.operands)
		return
	}
	a.stdinCode()
}

func doFlock(a *act) {
	if len(a.operands) == 0 {
		return
	}
	if !digits(a.operands[0].text) {
		a.use(both, a.operands[0])
	}
	words := a.operands[1:]
	if len(words) > 1 && (words[0].is("-c") || words[0].is("--command")) {
		a.shellText(words[1], nil)
		return
	}
	a.command(words)
}

func doCapsh(a *act) {
	for i, f := range a.call.argv[1:] {
		if f.is("--") || f.is("==") {
			a.command(append([]field{literal("bash", f.at)}, a.call.argv[i+2:]...))
		}
		if strings.HasPrefix(f.text, "--shell=") {
			a.command([]field{f.sub(f.text[len("--shell="):])})
		}
	}
}

// doBusybox runs the applet that its first word names.
func doBusybox(a *act) {
	if !a.effects["data"] {
		a.command(a.operands)
	}
}

// doTail is for wrappers whose options are not listed: each of their words could
// be the command, so those that are names of programs count.
func doTail(a *act) {
	args := a.call.argv[1:]
	for i := range args {
		f := args[i]
		if f.known && strings.HasPrefix(f.text, "-") {
			continue
		}
		if i > 0 && f.known && find(f.text[strings.LastIndexByte(f.text, '/')+1:]) == nil && i+1 < len(args) {
			if prev := args[i-1]; strings.HasPrefix(prev.text, "-") && !strings.Contains(prev.text, "=") {
				continue // more likely the value of the option in front of it
			}
		}
		a.command(args[i:])
		// Any word behind an option or a first operand could be the command too.
		if i > 0 || find(f.text[strings.LastIndexByte(f.text, '/')+1:]) == nil {
			for j := i + 1; j < len(args); j++ {
				if args[j].known && !strings.HasPrefix(args[j].text, "-") && find(args[j].text[strings.LastIndexByte(args[j].text, '/')+1:]) != nil {
					a.command(args[j:])
					break
				}
			}
		}
		return
	}
}

func doCrontab(a *act) {
	if len(a.operands) == 0 || a.operands[0].is("-") {
		if a.call.in.kind != inherited {
			a.opaque("inline_code", "crontab takes commands from its standard input", a.cmd.At)
		}
		return
	}
	a.useOperands(a.operands)
}

// doRunner runs a program of the project's own environment: the words are a
// command, found there or in PATH.
func doRunner(a *act) {
	words := a.operands
	if name := a.spec.names[0]; name == "direnv exec" && len(words) > 0 || a.cmd.Name == "rustup" || a.cmd.Name == "direnv" {
		if len(words) > 0 {
			words = words[1:]
		}
	}
	if len(words) > 0 {
		a.command(words)
	}
}

func doSocat(a *act) {
	for _, f := range a.operands {
		upper := strings.ToUpper(f.text)
		kind, rest, _ := strings.Cut(f.text, ":")
		switch {
		case strings.HasPrefix(upper, "EXEC:") || strings.HasPrefix(upper, "SYSTEM:") || strings.HasPrefix(upper, "SHELL:"):
			a.shellText(f.sub(before(rest, ",")), nil)
		case strings.HasPrefix(upper, "TCP") || strings.HasPrefix(upper, "UDP") || strings.HasPrefix(upper, "OPENSSL"):
			if !strings.Contains(strings.ToUpper(kind), "LISTEN") {
				a.host(before(rest, ":"))
			}
		case strings.Contains(f.text, "/"):
			a.use(both, f.sub(before(f.text[strings.IndexByte(f.text, '/'):], ",")))
		}
	}
}

// doStrace: -o takes |program and !program too.
func doStrace(a *act) {
	for _, f := range a.values["-o"] {
		if strings.HasPrefix(f.text, "|") || strings.HasPrefix(f.text, "!") {
			a.shellText(f.sub(f.text[1:]), nil)
			continue
		}
		a.use(writes, f)
	}
	a.useOperands(a.operands)
}

// doEnv: -S holds words of env itself.
func doEnv(a *act) {
	for _, f := range a.values["-S"] {
		f = f.numbers()
		a.shellText(f.sub("env "+f.text+quotedWords(a.operands)), nil)
	}
	if len(a.values["-S"]) == 0 {
		a.useOperands(a.operands)
	}
}

// quotedWords writes words as a shell reads them back; what is not known is a
// variable that nothing sets.
func quotedWords(words []field) string {
	var b strings.Builder
	for _, f := range words {
		switch {
		case f.known && !f.glob && !f.tree:
			b.WriteString(" '" + strings.ReplaceAll(f.text, "'", `'\''`) + "'")
		case f.many:
			b.WriteString(" $SANDBOXD_UNKNOWN")
		default:
			b.WriteString(` "$SANDBOXD_UNKNOWN"`)
		}
	}
	return b.String()
}

// doSetarch: the name of the architecture may be missing.
func doSetarch(a *act) {
	ops := a.operands
	if len(ops) > 0 && find(ops[0].text) == nil {
		if architectures[ops[0].text] || strings.ContainsAny(ops[0].text, "0123456789") {
			ops = ops[1:]
		}
	}
	for len(ops) > 0 && strings.HasPrefix(ops[0].text, "-") {
		ops = ops[1:]
	}
	if len(ops) > 0 {
		a.command(ops)
	} else {
		a.stdinCode()
	}
}

var architectures = set("alpha", "arm", "mips", "parisc", "ppc", "sparc")

// doShellIn starts a shell, which executes its standard input, if it is given
// nothing else to run.
func doShellIn(a *act) {
	a.useOperands(a.operands)
	if len(a.inner) == 0 {
		a.stdinCode()
	}
}

// takesWord reports whether an option of tmux that opens a window takes the next
// word.
func takesWord(option string) bool {
	return len(option) > 1 && option[0] == '-' && strings.ContainsRune("ceFfnstxylp", rune(option[len(option)-1]))
}

// opensWindow reports whether a subcommand of tmux runs the words behind it.
func opensWindow(word string) bool {
	for _, p := range []string{"new", "split", "respawn", "popup", "display-popup", "pipe"} {
		if strings.HasPrefix(word, p) {
			return true
		}
	}
	return false
}

var multiplexers = set("tmux", "screen", "zellij", "byobu")

// doTerminal: tmux and screen run words as shell text in several of their
// subcommands; all words that could be one are read so.
func doTerminal(a *act) {
	args := a.call.argv[1:]
	for i, f := range args {
		switch {
		case !f.known:
			a.opaque("inline_code", a.cmd.Name+" runs text that is only known when it runs", f.at)
			return
		case strings.Contains(f.text, " ") || f.is("send-keys") || f.is("run-shell") || f.is("if-shell") || f.is("stuff") || f.is("-X"):
			a.opaque("inline_code", a.cmd.Name+" runs text in another terminal: "+f.text, f.at)
			return
		case i+1 < len(args) && (f.is("-e") || f.is("-x") || f.is("--")) && !multiplexers[a.cmd.Name]:
			a.command(args[i+1:])
			return
		case i > 0 && opensWindow(args[0].text) && !strings.HasPrefix(f.text, "-") && !takesWord(args[i-1].text):
			a.command(args[i:])
			return
		case i > 0 && !strings.HasPrefix(f.text, "-") && find(f.text) != nil:
			a.command(args[i:])
			return
		case a.cmd.Name == "screen" && !strings.HasPrefix(f.text, "-") && i == 0:
			a.command(args)
			return
		}
	}
}
