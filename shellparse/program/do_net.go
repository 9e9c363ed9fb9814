package program

import (
	neturl "net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/source"
)

func doCurl(a *Call) {
	a.UseOperands(a.Operands)
	for _, f := range a.Values["-K"] {
		if !a.settings(f) && (f.Fd || stdinNames[f.Text] || strings.HasPrefix(f.Text, "/dev/")) {
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
	for _, f := range a.Values["-o"] {
		a.outputs(f)
		for _, dir := range a.Values["--output-dir"] {
			a.outputs(below(dir, f))
		}
	}
	if a.Effects["remotename"] {
		a.downloads(writes, slices.Concat(a.Operands, a.Values["--url"]), a.Values["--output-dir"])
	}
}

// downloads writes a file for each URL, in the last of the directories if there are any. The last part of its path
// names the file. One that nobody can tell is downloaded-file.
func (a *Call) downloads(k kind, urls, dirs []Word) {
	for _, u := range urls {
		url := u.Text
		if !u.Known || u.Tree {
			url = ""
		}
		f := Literal(a.remoteName(url), u.At)
		if a.Name == "curl" && strings.ContainsAny(f.Text, "{[") { // curl makes several names of it
			f.Glob, f.Pat = true, stars(f.Text)
		}
		if n := len(dirs); n > 0 {
			dir := dirs[n-1].Lit()
			if dir == "" {
				continue // it is written, whatever it is
			}
			f.Text = path.Join(dir, f.Text)
			if f.Glob {
				f.Pat = path.Join(EscapePattern(dir), f.Pat)
			}
		}
		a.use(k, f)
	}
}

// outputs writes the files that -o names for curl: #1 stands for what the first {a,b} or [1-9] of the URL gives.
func (a *Call) outputs(f Word) {
	if !f.Known || f.Glob || !strings.Contains(f.Text, "#") {
		a.use(writes, f)
		return
	}
	for _, u := range append(a.Operands[:len(a.Operands):len(a.Operands)], a.Values["--url"]...) {
		texts := []string{""} // with \ in front of what a pattern takes otherwise
		lists, rest := globs(u.Text), f.Text
		for rest != "" {
			name, behind, _ := strings.Cut(rest, "#")
			values := []string{EscapePattern(name)}
			digits := len(behind) - len(strings.TrimLeft(behind, "0123456789"))
			n, err := strconv.Atoi(behind[:digits])
			switch {
			case len(name) == len(rest):
			case err != nil || n < 1 || n > len(lists) && u.Known: // it stands for itself
				values[0] += EscapePattern("#" + behind[:digits])
			case n > len(lists) || len(lists[n-1])*len(texts) > mostInputs:
				values[0] += "*"
			default:
				values = nil
				for _, value := range lists[n-1] {
					values = append(values, EscapePattern(name)+value)
				}
			}
			var longer []string
			for _, text := range texts {
				for _, value := range values {
					longer = append(longer, text+value)
				}
			}
			texts, rest = longer, behind[digits:]
		}
		for _, text := range texts {
			if g := f; strings.ContainsAny(text, `*\`) {
				g.Glob, g.Pat = true, text
				a.use(writes, g)
			} else {
				a.use(writes, f.Sub(text))
			}
		}
	}
}

// globs returns what curl takes for each {a,b} and [1-9] of a URL: the names, or * for what is not listed.
func globs(url string) (lists [][]string) {
	for {
		i := strings.IndexAny(url, "{[")
		if i < 0 {
			return lists
		}
		list, rest, ok := strings.Cut(url[i+1:], map[byte]string{'{': "}", '[': "]"}[url[i]])
		values := []string{"*"}
		if url[i] == '{' && ok {
			values = nil
			for name := range strings.SplitSeq(list, ",") {
				values = append(values, EscapePattern(name))
			}
		}
		lists, url = append(lists, values), rest
	}
}

// below returns a name in a directory.
func below(dir, f Word) Word {
	if !dir.Known || !f.Known || dir.Glob || f.Glob {
		f.Text, f.Known = dir.Text+"/"+f.Text, false
		return f
	}
	return f.Sub(path.Join(dir.Text, f.Text))
}

// stars returns a name with * for each {a,b}, [1-9] and [a-z] of curl.
func stars(name string) string {
	var b strings.Builder
	for {
		i := strings.IndexAny(name, "{[")
		if i < 0 {
			return b.String() + EscapePattern(name)
		}
		b.WriteString(EscapePattern(name[:i]) + "*")
		if _, rest, ok := strings.Cut(name[i:], map[byte]string{'{': "}", '[': "]"}[name[i]]); ok {
			name = rest
		} else {
			return b.String()
		}
	}
}

// remoteName returns the name of the file in which a program stores a URL.
func (a *Call) remoteName(url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		url = rest
	}
	where, query, asked := strings.Cut(before(url, "#"), "?")
	_, where, _ = strings.Cut(where, "/")
	wget := strings.HasPrefix(a.Name, "wget")
	name := where[strings.LastIndex(where, "/")+1:]
	switch {
	case url == "", !wget && name == "":
		return "downloaded-file"
	case !wget:
		return name
	case name == "":
		name = "index.html"
	}
	if text, err := neturl.PathUnescape(name); err == nil && !strings.Contains(text, "/") {
		name = text
	}
	if asked {
		name += "?" + strings.ReplaceAll(query, "/", "%2F")
	}
	return name
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
		a.downloads(changes, ops[:1], nil)
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
	for _, list := range a.Values["-i"] {
		for _, text := range a.texts(list) {
			for url := range strings.FieldsSeq(text) {
				a.use(urlKind, Literal(url, list.At))
			}
		}
	}
	if len(a.Values["-O"]) > 0 {
		return
	}
	for _, f := range a.Argv[1:] {
		if f.Is("--spider") || f.Is("--version") || f.Is("--help") {
			return
		}
	}
	if a.Effects["names"] || len(a.Operands) == 0 {
		a.use(writes, Literal("downloaded-file", a.At))
	}
	k := changes // a file that is there keeps its name
	if a.Effects["replaces"] {
		k = writes
	}
	a.downloads(k, a.Operands, a.Values["-P"])
}

// doAria writes into the working directory unless it is told where.
func doAria(a *Call) {
	a.UseOperands(a.Operands)
	if len(a.Values["-o"]) == 0 {
		a.downloads(changes, a.Operands, a.Values["-d"])
	}
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
	switch {
	case a.Name == "scp":
		a.received(a.Operands)
	case a.Name == "sftp" && len(a.Operands) == 1:
		a.received(append(slices.Clip(a.Operands), Literal(".", a.At)))
	case a.Name == "sftp":
		a.received(a.Operands)
	}
}

// received writes what comes from another machine into the last operand, if that is a directory here. It keeps its
// name.
func (a *Call) received(operands []Word) {
	last := len(operands) - 1
	if last < 1 || !operands[last].Known || strings.Contains(before(operands[last].Text, "/"), ":") {
		return
	}
	for _, f := range operands[:last] {
		_, name, ok := strings.Cut(f.Text, ":")
		if ok && f.Known && path.Base(name) != "." && !strings.HasSuffix(name, "/") {
			a.use(changes, operands[last].Sub(path.Join(operands[last].Text, path.Base(name))))
		}
	}
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
	a.received(ops)
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
