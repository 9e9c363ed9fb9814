package shellparse

import "strings"

func doCurl(a *act) {
	a.useOperands(a.operands)
	for _, f := range a.values["-K"] {
		if f.fd || f.is("-") || strings.HasPrefix(f.text, "/dev/") {
			a.opaque("inline_code", "curl is told what to do by what a command prints", f.at)
		}
	}
	for i, f := range a.call.argv {
		if f.is("--proto-default") && i+1 < len(a.call.argv) && !a.call.argv[i+1].is("https") && !a.call.argv[i+1].is("http") {
			for _, o := range a.operands {
				a.use(reads, o)
			}
		}
	}
	if a.effects["remotename"] && len(a.values["--output-dir"]) == 0 {
		a.use(writes, literal("downloaded-file", a.cmd.At))
	}
}

// doWget writes into the working directory unless it is told where.
func doWget(a *act) {
	a.useOperands(a.operands)
	for _, o := range []string{"-O", "--output-document", "-P", "--directory-prefix"} {
		if len(a.values[o]) > 0 {
			return
		}
	}
	for _, f := range a.call.argv[1:] {
		if f.is("--spider") || f.is("--version") || f.is("--help") {
			return
		}
	}
	a.use(writes, literal("downloaded-file", a.cmd.At))
}

// doSSH looks at -o NAME=VALUE; the remote command runs elsewhere.
func doSSH(a *act) {
	if a.cmd.Name == "ssh" && len(a.operands) > 1 {
		// Options may follow the host.
		rest := a.operands[1:]
		a.operands = a.operands[:1:1]
		if i := a.options(a.spec, rest, true); i < len(rest) {
			a.operands = append(a.operands, rest[i:]...)
		}
	}
	for _, f := range a.values["-F"] {
		if !f.is("/dev/null") && !f.is("none") {
			a.use(reads, f)
			a.opaque("inline_code", a.cmd.Name+" is given a configuration, which may run programs", f.at)
		}
	}
	for _, f := range a.values["-o"] {
		name, val, ok := strings.Cut(f.text, "=")
		if !ok {
			name, val, _ = strings.Cut(f.text, " ")
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "proxycommand", "localcommand", "knownhostscommand", "pkcs11provider", "securitykeyprovider", "xauthlocation", "sshaskpass":
			if val != "none" {
				a.shellText(f.sub(strings.TrimSpace(val)), nil)
			}
		case "include", "match", "controlpath", "identityagent":
			a.use(maybe, f.sub(val))
		case "identityfile", "certificatefile", "userknownhostsfile", "globalknownhostsfile":
			a.use(reads, f.sub(val))
		}
		if !f.known {
			a.opaque("unknown_option", a.cmd.Name+" is given an option that is only known when it runs", f.at)
		}
	}
	if a.cmd.Name == "ssh" && len(a.operands) > 1 {
		a.host(a.operands[0].lit())
		return
	}
	a.useOperands(a.operands)
}

func doRsync(a *act) {
	ops := a.operands
	for i, f := range ops {
		k := remote
		if i == len(ops)-1 && len(ops) > 1 {
			k = remoteTo
		}
		a.use(k, f)
		if a.effects["move"] && k == remote {
			a.use(cuts, f)
		}
	}
}

// doOpenssl: every subcommand has its own options; those that name files are
// alike.
func doOpenssl(a *act) {
	args := a.call.argv[1:]
	for i, f := range args {
		if i+1 >= len(args) {
			break
		}
		next := args[i+1]
		switch f.text {
		case "-in", "-inkey", "-key", "-CA", "-CAkey", "-CAfile", "-CApath", "-cert", "-config", "-extfile", "-rand", "-certfile", "-keyform_", "-untrusted", "-trusted", "-verify_", "-signkey", "-content", "-sigfile", "-signature", "-peerkey", "-kdfopt_":
			a.use(reads, next)
		case "-out", "-keyout", "-writerand", "-CAserial", "-keylogfile", "-sess_out":
			a.use(both, next)
		case "-pass", "-passin", "-passout", "-k":
			if file, ok := strings.CutPrefix(next.text, "file:"); ok {
				a.use(reads, next.sub(file))
			}
		case "-connect", "-host", "-proxy":
			a.host(next.lit())
		case "-engine", "-provider", "-provider-path", "-provparam":
			a.use(refuse, next)
		}
	}
	for _, f := range a.operands {
		if strings.ContainsAny(f.text, "/.") && !strings.Contains(f.text, ":") && !strings.HasPrefix(f.text, "/CN") {
			a.use(maybe, f)
		}
	}
}

// doIP: "ip netns exec NAME COMMAND" and "ip vrf exec".
func doIP(a *act) {
	for i, f := range a.operands {
		if f.is("exec") && i+2 < len(a.operands) {
			args := a.call.argv[1:]
			for j, g := range args {
				if g.is("exec") && j+2 < len(args) {
					a.command(args[j+2:])
					return
				}
			}
		}
	}
}
