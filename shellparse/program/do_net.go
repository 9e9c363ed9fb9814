package program

import (
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/source"
)

func doCurl(a *Call) {
	a.UseOperands(a.Operands)
	for _, f := range a.Values["-K"] {
		if f.Fd || f.Is("-") || strings.HasPrefix(f.Text, "/dev/") {
			a.Opaque("inline_code", "curl is told what to do by what a command prints", f.At)
		}
	}
	for i, f := range a.Argv {
		if f.Is("--proto-default") && i+1 < len(a.Argv) && !a.Argv[i+1].Is("https") &&
			!a.Argv[i+1].Is("http") {
			for _, o := range a.Operands {
				a.use(reads, o)
			}
		}
	}
	if a.Effects["remotename"] && len(a.Values["--output-dir"]) == 0 {
		a.use(writes, Literal("downloaded-file", a.At))
	}
}

// doHTTPie: httpie and xh take a method in front of the URL, and parts of the request behind it.
func doHTTPie(a *Call) {
	ops := a.Operands
	if len(ops) > 1 && (IsMethod(ops[0].Lit()) || !ops[0].Known && strings.Contains(ops[1].Text, "://")) {
		ops = ops[1:]
	}
	if len(ops) == 0 {
		return
	}
	if !a.Effects["offline"] {
		a.use(urlKind, ops[0])
	}
	for _, f := range ops[1:] {
		a.item(f)
	}
	if a.Effects["download"] && len(a.Values["-o"]) == 0 {
		a.use(writes, Literal("downloaded-file", a.At))
	}
}

// IsMethod reports whether httpie takes a word in front of another one for a method: letters alone.
func IsMethod(word string) bool {
	return word != "" && strings.Trim(strings.ToUpper(word), "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// item is a part of a request of httpie. The first separator says what it is: a file where it ends with @.
func (a *Call) item(f Word) {
	text := f.Text
	if !f.Known {
		text = f.Skeleton
	}
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			i++
			continue
		}
		for _, sep := range []string{":=@", "=@", ":@", "==", ":=", "@", "=", ":"} {
			value, ok := strings.CutPrefix(text[i:], sep)
			switch {
			case !ok:
				continue
			case !strings.HasSuffix(sep, "@"):
			case f.Known:
				a.File(f.Sub(before(value, ";type=")), Read, false)
			default:
				a.File(Word{Text: f.Text, At: f.At}, Read, false)
			}
			return
		}
	}
}

// doWget writes into the working directory unless it is told where.
func doWget(a *Call) {
	a.UseOperands(a.Operands)
	for _, o := range []string{"-O", "--output-document", "-P", "--directory-prefix"} {
		if len(a.Values[o]) > 0 {
			return
		}
	}
	for _, f := range a.Argv[1:] {
		if f.Is("--spider") || f.Is("--version") || f.Is("--help") {
			return
		}
	}
	a.use(writes, Literal("downloaded-file", a.At))
}

// doSSH looks at -o NAME=VALUE; the remote command runs elsewhere.
func doSSH(a *Call) {
	if a.Name == "ssh" && len(a.Operands) > 1 {
		// Options may follow the host.
		rest := a.Operands[1:]
		a.Operands = a.Operands[:1:1]
		if i := a.options(a.spec, rest, true); i < len(rest) {
			a.Operands = append(a.Operands, rest[i:]...)
		}
	}
	for _, f := range a.Values["-F"] {
		if !f.Is("/dev/null") && !f.Is("none") {
			a.use(reads, f)
			a.Opaque("inline_code", a.Name+" is given a configuration, which may run programs", f.At)
		}
	}
	for _, f := range a.Values["-o"] {
		name, val, ok := strings.Cut(f.Text, "=")
		if !ok {
			name, val, _ = strings.Cut(f.Text, " ")
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "proxycommand", "localcommand", "knownhostscommand", "pkcs11provider", "securitykeyprovider",
			"xauthlocation", "sshaskpass", "ssh_command":
			if val != "none" {
				a.Run(f.Sub(strings.TrimSpace(val)))
			}
		case "include", "match", "controlpath", "identityagent":
			a.use(maybe, f.Sub(val))
		case "identityfile", "certificatefile", "userknownhostsfile", "globalknownhostsfile":
			a.use(reads, f.Sub(val))
		}
		if !f.Known {
			a.Opaque("unknown_option", a.Name+" is given an option that is only known when it runs", f.At)
		}
	}
	if a.Name == "ssh" && len(a.Operands) > 1 {
		a.host(a.Operands[0].Lit())
		return
	}
	a.UseOperands(a.Operands)
}

func doRsync(a *Call) {
	ops := a.Operands
	for i, f := range ops {
		k := remote
		if i == len(ops)-1 && len(ops) > 1 {
			k = remoteTo
		}
		a.use(k, f)
		if a.Effects["move"] && k == remote {
			a.use(cuts, f)
		}
	}
}

// doOpenssl: every subcommand has its own options; those that name files are
// alike.
func doOpenssl(a *Call) {
	args := a.Argv[1:]
	var told []source.Pos // values whose meaning their option says
	for i, f := range args {
		if i+1 >= len(args) {
			break
		}
		next := args[i+1]
		told = append(told, next.At)
		switch f.Text {
		case "-in", "-inkey", "-key", "-CA", "-CAkey", "-CAfile", "-CApath", "-cert", "-config", "-extfile", "-rand",
			"-certfile", "-keyform_", "-untrusted", "-trusted", "-verify_", "-signkey", "-content", "-sigfile",
			"-signature", "-peerkey", "-kdfopt_":
			a.use(reads, next)
		case "-out", "-keyout":
			a.use(writes, next)
		case "-writerand", "-CAserial", "-keylogfile", "-sess_out":
			a.use(both, next)
		case "-pass", "-passin", "-passout", "-k":
			if file, ok := strings.CutPrefix(next.Text, "file:"); ok {
				a.use(reads, next.Sub(file))
			}
		case "-connect", "-host", "-proxy":
			a.host(next.Lit())
		case "-engine", "-provider", "-provider-path", "-provparam":
			a.use(refuse, next)
		default:
			told = told[:len(told)-1]
		}
	}
	for _, f := range a.Operands {
		if slices.Contains(told, f.At) {
			continue
		}
		if strings.ContainsAny(f.Text, "/.") && !strings.Contains(f.Text, ":") && !strings.HasPrefix(f.Text, "/CN") {
			a.use(maybe, f)
		}
	}
}

// doIP: "ip netns exec NAME COMMAND" and "ip vrf exec".
func doIP(a *Call) {
	for i, f := range a.Operands {
		if f.Is("exec") && i+2 < len(a.Operands) {
			args := a.Argv[1:]
			for j, g := range args {
				if g.Is("exec") && j+2 < len(args) {
					a.Start(args[j+2:])
					return
				}
			}
		}
	}
}

// doBrowser: an operand is a page, or a file of this machine.
func doBrowser(a *Call) {
	for _, f := range a.Operands {
		if f.Known && looksLikePath(f.Text) {
			a.use(reads, f)
			continue
		}
		a.use(urlKind, f)
	}
}
