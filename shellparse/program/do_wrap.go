package program

import (
	"fmt"
	"strings"
)

func doSudo(a *Call) {
	switch {
	case a.Effects["edit"]:
		for _, f := range a.Operands {
			a.use(both, f)
		}
	case len(a.Operands) == 0 && a.Effects["login"]:
		a.StdinCode()
	case a.Effects["login"] && len(a.Operands) > 0:
		a.joined(a.Operands)
	default:
		a.UseOperands(a.Operands)
	}
}

// doSu: a user, then words for the user's shell.
func doSu(a *Call) {
	ops := a.Operands
	if len(ops) > 0 && ops[0].Is("-") {
		ops = ops[1:]
	}
	for i, f := range ops {
		letters := strings.HasPrefix(f.Text, "-") && !strings.HasPrefix(f.Text, "--") && strings.HasSuffix(f.Text, "c")
		if (letters || f.Is("--command") || f.Is("--session-command")) && i+1 < len(ops) {
			a.Run(ops[i+1]) // su itself reads them, or the shell behind a user
		}
	}
	if a.Name == "runuser" && len(a.Values["-u"]) > 0 {
		a.Start(ops)
		return
	}
	if len(a.Inner) == 0 {
		a.StdinCode()
	}
}

// doRunParts: the one program that a pattern of the form ^NAME$ selects starts with the words of --arg.
func doRunParts(a *Call) {
	a.UseOperands(a.Operands)
	args := a.Values["-a"]
	if len(args) == 0 {
		return
	}
	program := Word{Text: "(what run-parts selects)", At: a.At}
	for _, f := range a.Values["--regex"] {
		name, begins := strings.CutPrefix(f.Lit(), "^")
		name, ends := strings.CutSuffix(name, "$")
		if begins && ends && !strings.ContainsFunc(name, func(r rune) bool { return r > 'z' || !IsWordByte(byte(r)) }) {
			program = f.Sub(name)
		}
	}
	a.Start(append([]Word{program}, args...))
}

func doGdb(a *Call) {
	for _, f := range a.Argv[1:] {
		if f.Is("--args") || f.Is("-args") || f.Is("--") {
			break
		}
		for _, p := range []string{
			"ex", "iex", "eval-command", "init-eval-command", "x=", "command", "ix",
			"init-command",
		} {
			if strings.HasPrefix(strings.TrimLeft(f.Text, "-"), p) && strings.HasPrefix(f.Text, "-") {
				a.Opaque("inline_code", "gdb executes "+f.Text, f.At)
			}
		}
	}
	if a.In.Kind != Inherited {
		a.Opaque("inline_code", "gdb executes its standard input", a.At)
	}
	for i, f := range a.Argv[1:] {
		if f.Is("--args") || f.Is("-args") || f.Is("--") {
			a.Start(a.Argv[i+2:])
			return
		}
	}
	if len(a.Operands) > 0 {
		a.Start(a.Operands)
		return
	}
	a.StdinCode()
}

func doFlock(a *Call) {
	if len(a.Operands) == 0 {
		return
	}
	if !AllDigits(a.Operands[0].Text) {
		a.use(both, a.Operands[0])
	}
	words := a.Operands[1:]
	if len(words) > 1 && (words[0].Is("-c") || words[0].Is("--command")) {
		a.Run(words[1])
		return
	}
	a.Start(words)
}

func doCapsh(a *Call) {
	for i, f := range a.Argv[1:] {
		if f.Is("--") || f.Is("==") {
			a.Start(append([]Word{Literal("bash", f.At)}, a.Argv[i+2:]...))
		}
		if strings.HasPrefix(f.Text, "--shell=") {
			a.Start([]Word{f.Sub(f.Text[len("--shell="):])})
		}
	}
}

// doBusybox runs the applet that its first word names.
func doBusybox(a *Call) {
	if !a.Effects["data"] {
		a.Start(a.Operands)
	}
}

// doTail is for wrappers whose options are not listed: each of their words could
// be the command, so those that are names of programs count.
func doTail(a *Call) {
	args := a.Argv[1:]
	for i := range args {
		f := args[i]
		if f.Known && strings.HasPrefix(f.Text, "-") {
			continue
		}
		if i > 0 && f.Known && find(f.Text[strings.LastIndexByte(f.Text, '/')+1:]) == nil && i+1 < len(args) {
			if prev := args[i-1]; strings.HasPrefix(prev.Text, "-") && !strings.Contains(prev.Text, "=") {
				continue // more likely the value of the option in front of it
			}
		}
		a.Start(args[i:])
		// Any word behind an option or a first operand could be the command too.
		if i > 0 || find(f.Text[strings.LastIndexByte(f.Text, '/')+1:]) == nil {
			for j := i + 1; j < len(args); j++ {
				if args[j].Known && !strings.HasPrefix(args[j].Text, "-") &&
					find(args[j].Text[strings.LastIndexByte(args[j].Text, '/')+1:]) != nil {
					a.Start(args[j:])
					break
				}
			}
		}
		return
	}
}

func doCrontab(a *Call) {
	if len(a.Operands) == 0 || a.Operands[0].Is("-") {
		if a.In.Kind != Inherited {
			a.Opaque("inline_code", "crontab takes commands from its standard input", a.At)
		}
		return
	}
	a.UseOperands(a.Operands)
}

// doRunner runs a program of the project's own environment: the words are a
// command, found there or in PATH.
func doRunner(a *Call) {
	words := a.Operands
	if name := a.spec.names[0]; name == "direnv exec" && len(words) > 0 || a.Name == "rustup" ||
		a.Name == "direnv" {
		if len(words) > 0 {
			words = words[1:]
		}
	}
	if a.Name == "uv" && len(words) > 0 && strings.HasSuffix(words[0].Text, ".py") {
		words = append([]Word{Literal("python3", words[0].At)}, words...)
	}
	if len(words) > 0 {
		a.Start(words)
	}
}

func doSocat(a *Call) {
	for _, f := range a.Operands {
		upper := strings.ToUpper(f.Text)
		kind, rest, _ := strings.Cut(f.Text, ":")
		switch {
		case strings.HasPrefix(upper, "EXEC:") || strings.HasPrefix(upper, "SYSTEM:") ||
			strings.HasPrefix(upper, "SHELL:"):
			a.Run(f.Sub(before(rest, ",")))
		case strings.HasPrefix(upper, "TCP") || strings.HasPrefix(upper, "UDP") || strings.HasPrefix(upper, "OPENSSL"):
			if !strings.Contains(strings.ToUpper(kind), "LISTEN") {
				a.host(before(rest, ":"))
			}
		case strings.Contains(f.Text, "/"):
			a.use(both, f.Sub(before(f.Text[strings.IndexByte(f.Text, '/'):], ",")))
		}
	}
}

// doStrace: -o takes |program and !program too.
func doStrace(a *Call) {
	for _, f := range a.Values["-o"] {
		if strings.HasPrefix(f.Text, "|") || strings.HasPrefix(f.Text, "!") {
			a.Run(f.Sub(f.Text[1:]))
			continue
		}
		a.use(writes, f)
	}
	a.UseOperands(a.Operands)
}

// doEnv: -S holds words of env itself, which it splits in its own way.
func doEnv(a *Call) {
	for _, f := range a.Values["-S"] {
		f = f.Numbers()
		words, ok := envWords(f)
		if !ok {
			a.Opaque("inline_code", a.Name+" -S splits text that is only known when it runs, or not as a shell does",
				f.At)
			continue
		}
		a.Start(append(append([]Word{Literal("env", f.At)}, words...), a.Operands...))
	}
	if len(a.Values["-S"]) == 0 {
		a.UseOperands(a.Operands)
	}
}

// envEscapes are what env -S makes of a character behind a backslash, in pairs.
const envEscapes = "\"\"##$$''\\\\f\fn\nr\rt\tv\v"

// envWords splits text as env -S does. A ${NAME} makes its word unknown. It reports false for text that is not known,
// and for text that env refuses.
func envWords(f Word) (words []Word, ok bool) {
	if f.Lit() == "" {
		return nil, f.Known && f.Text == "" && !f.Glob && !f.Tree
	}
	var word strings.Builder
	begun, known, quote, from := false, true, byte(0), 0
	text := f.Text
	end := func(to int) {
		switch {
		case begun && known:
			words = append(words, Literal(word.String(), f.At))
		case begun:
			words = append(words, Word{Text: text[from:to], Skeleton: word.String(), At: f.At})
		}
		word.Reset()
		begun, known, from = false, true, to+1
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote == 0 && strings.IndexByte(" \t\n\v\f\r", c) >= 0:
			end(i)
		case quote == 0 && !begun && c == '#':
			return words, true
		case c == quote && quote != 0:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, begun = c, true
		case c == '\\' && (quote != '\'' || i+1 < len(text) && (text[i+1] == '\\' || text[i+1] == '\'')):
			if i++; i == len(text) {
				return nil, false
			}
			if text[i] == '_' && quote == 0 {
				end(i - 1)
				from = i + 1
				continue
			}
			if text[i] == 'c' && quote == 0 {
				end(i - 1)
				return words, true
			}
			begun = true
			pair := strings.IndexByte(envEscapes, text[i])
			switch {
			case text[i] == '_':
				word.WriteByte(' ')
			case pair < 0:
				return nil, false
			default:
				word.WriteByte(envEscapes[pair&^1+1])
			}
		case c == '$' && quote != '\'':
			n := strings.IndexByte(text[i:], '}')
			if !strings.HasPrefix(text[i:], "${") || n < 0 {
				return nil, false
			}
			word.WriteByte('_')
			begun, known = true, false
			i += n
		default:
			begun = true
			word.WriteByte(c)
		}
	}
	if quote != 0 {
		return nil, false
	}
	end(len(text))
	return words, true
}

// Quoted returns the text that a shell reads back as these words.
func Quoted(words []Word) Word {
	f := Joined(words)
	f.Text = strings.TrimSpace(quotedWords(words))
	return f
}

// quotedWords writes words as a shell reads them back; what is not known is a
// variable that nothing sets.
func quotedWords(words []Word) string {
	var b strings.Builder
	for _, f := range words {
		switch {
		case f.Known && !f.Glob && !f.Tree:
			b.WriteString(" '" + strings.ReplaceAll(f.Text, "'", `'\''`) + "'")
		case f.Many:
			b.WriteString(" $SANDBOXD_UNKNOWN")
		default:
			b.WriteString(` "$SANDBOXD_UNKNOWN"`)
		}
	}
	return b.String()
}

// doSetarch: the name of the architecture may be missing.
func doSetarch(a *Call) {
	ops := a.Operands
	if len(ops) > 0 && find(ops[0].Text) == nil {
		if architectures[ops[0].Text] || strings.ContainsAny(ops[0].Text, "0123456789") {
			ops = ops[1:]
		}
	}
	for len(ops) > 0 && strings.HasPrefix(ops[0].Text, "-") {
		ops = ops[1:]
	}
	if len(ops) > 0 {
		a.Start(ops)
	} else {
		a.StdinCode()
	}
}

var architectures = set("alpha", "arm", "mips", "parisc", "ppc", "sparc")

// doShellIn starts a shell, which executes its standard input, if it is given
// nothing else to run.
func doShellIn(a *Call) {
	a.UseOperands(a.Operands)
	if len(a.Inner) == 0 {
		a.StdinCode()
	}
}

// doScript: the script of BSD plays a recording with -p, which that of util-linux does not have.
func doScript(a *Call) {
	if !a.Effects["plays"] {
		doShellIn(a)
		return
	}
	recording := Literal("typescript", a.At)
	if len(a.Operands) > 0 {
		recording = a.Operands[0]
	}
	a.use(reads, recording)
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
func doTerminal(a *Call) {
	args := a.Argv[1:]
	for i, f := range args {
		switch {
		case !f.Known:
			a.Opaque("inline_code", a.Name+" runs text that is only known when it runs", f.At)
			return
		case strings.Contains(f.Text, " ") || f.Is("send-keys") || f.Is("run-shell") || f.Is("if-shell") ||
			f.Is("stuff") || f.Is("-X"):
			a.Opaque("inline_code", a.Name+" runs text in another terminal: "+f.Text, f.At)
			return
		case i+1 < len(args) && (f.Is("-e") || f.Is("-x") || f.Is("--")) && !multiplexers[a.Name]:
			a.Start(args[i+1:])
			return
		case i > 0 && opensWindow(args[0].Text) && !strings.HasPrefix(f.Text, "-") && !takesWord(args[i-1].Text):
			a.Start(args[i:])
			return
		case i > 0 && !strings.HasPrefix(f.Text, "-") && find(f.Text) != nil:
			a.Start(args[i:])
			return
		case a.Name == "screen" && !strings.HasPrefix(f.Text, "-") && i == 0:
			a.Start(args)
			return
		}
	}
}

// StdinCode is a program that executes its standard input.
func (a *Call) StdinCode() {
	switch in := a.In; in.Kind {
	case HereText:
		a.Run(Literal(in.Text, in.At))
	case Inherited:
		// Nothing is connected: there is no text to run.
		if a.Fed {
			a.Opaque("inline_code", a.Name+" executes its standard input", a.At)
		}
	case FromFile:
		a.CodeInput() // a script file, as if it were named
	default:
		a.Opaque("inline_code",
			fmt.Sprintf("%s executes %s, which is only known when it runs", a.Name, a.stdin()), a.At)
	}
}

func doOtherShell(a *Call) {
	if len(a.Operands) == 0 && len(a.Values) == 0 {
		a.Opaque("inline_code", a.Name+" executes "+a.stdin(), a.At)
		return
	}
	a.UseOperands(a.Operands)
}
