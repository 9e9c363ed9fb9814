package program

import (
	"fmt"
	"path"
	"strings"
	"sync"
)

// gitSettings looks at -c NAME=VALUE in front of a subcommand.
func (a *Call) gitSettings() {
	for _, f := range a.Values["-c"] {
		if !f.Known {
			a.Opaque("unknown_option", "git is given a setting that is only known when it runs: "+f.Text, f.At)
			continue
		}
		key, val, _ := strings.Cut(f.Text, "=")
		a.gitSetting(key, f.Sub(val))
	}
}

// workTree: what subcommands make of files they make in the tree that is named.
func (a *Call) workTree(sub Word) {
	switch sub.Text {
	case "checkout", "restore", "switch", "checkout-index", "read-tree", "reset", "merge", "pull", "stash", "clean",
		"rm", "mv", "rebase", "cherry-pick", "revert", "apply", "am", "sparse-checkout":
		for _, f := range a.Values["--work-tree"] {
			a.use(cuts, f)
		}
	}
}

// gitPlain are the sections and keys of git's configuration that execute nothing.
var gitPlain = sync.OnceValue(func() []string {
	text, err := tables.ReadFile("tables/gitconfig.txt")
	if err != nil {
		panic("cannot happen, the table is built in: " + err.Error())
	}
	var keys []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			keys = append(keys, line)
		}
	}
	return keys
})

// GitSetting judges a setting that a variable gives git.
func (a *Call) GitSetting(key, val Word) {
	if !key.Known || !val.Known {
		a.Opaque("unknown_option", "git is given a setting that is only known when it runs: "+key.Text, key.At)
		return
	}
	a.gitSetting(key.Text, val)
}

// gitSetting judges one setting by what its key makes git do with the value.
func (a *Call) gitSetting(key string, val Word) {
	key = strings.ToLower(key)
	for _, plain := range gitPlain() {
		if strings.HasPrefix(key, plain) {
			return
		}
	}
	switch {
	case strings.HasPrefix(key, "alias."):
		if text, ok := strings.CutPrefix(val.Text, "!"); ok {
			a.Run(val.Sub(text))
		} else {
			a.Run(val.Sub("git " + val.Text))
		}
	case val.Is("") || val.Is("true") || val.Is("false") || val.Is("0") || val.Is("1") || val.Is("cat"):
	case strings.HasPrefix(key, "include"), key == "core.hookspath", key == "init.templatedir",
		key == "core.attributesfile", key == "core.worktree", key == "protocol.ext.allow",
		strings.HasPrefix(key, "protocol."):
		a.Opaque("unknown_option", fmt.Sprintf("git reads what it runs from %s=%s", key, val.Text), val.At)
	default:
		a.Run(val.Sub(strings.TrimPrefix(val.Text, "!")))
	}
	if len(a.Inner) > 0 {
		a.Via = "git -c " + key
	}
}

// dashes splits the words of a command at "--".
func dashes(args []Word) (front, back []Word) {
	for i, f := range args {
		if f.Is("--") {
			return args[:i], args[i+1:]
		}
	}
	return args, nil
}

// doCheckout: behind "--" there are files, in front of it mostly branches.
func doCheckout(a *Call) {
	_, files := dashes(a.Argv[1:])
	for _, f := range files {
		a.use(changes, f)
	}
	for _, f := range a.Operands {
		if strings.HasPrefix(f.Text, "/") || strings.HasPrefix(f.Text, "./") || strings.HasPrefix(f.Text, "../") ||
			f.Is(".") {
			a.use(changes, f)
		}
	}
}

func doGitConfig(a *Call) {
	if a.Effects["data"] || len(a.Operands) < 2 {
		return
	}
	ops := a.Operands
	if ops[0].Is("set") {
		ops = ops[1:]
	}
	if ops[0].Is("get") || ops[0].Is("list") || ops[0].Is("unset") || len(ops) < 2 {
		return
	}
	if ops[0].Lit() == "" {
		a.Opaque("unknown_option", "git is given a setting that is only known when it runs", ops[0].At)
		return
	}
	a.gitSetting(ops[0].Text, ops[1])
}

// template: git copies hooks from it, and runs them.
func (a *Call) template() {
	for _, f := range a.Values["--template"] {
		if !f.Is("") {
			a.Opaque("unknown_option", "git copies the hooks of the template "+f.Text+", and runs them", f.At)
		}
	}
}

func doGitInit(a *Call) {
	a.template()
	a.UseOperands(a.Operands)
}

func doGitRemote(a *Call) {
	a.gitSettings()
	a.template()
	for _, f := range a.Operands {
		if strings.Contains(before(f.Text, "/"), "::") {
			a.Opaque("unknown_option", "git runs a remote helper: "+f.Text, f.At)
			return
		}
	}
	switch a.spec.do {
	case "gitremoteadd":
		// A remote is a name in the configuration, until something is fetched.
		for _, f := range a.Operands {
			if !a.Effects["fetch"] {
				break
			}
			if strings.Contains(f.Text, "://") || strings.Contains(f.Text, ":") {
				a.use(remote, f)
			}
		}
	case "gitremote":
		for i, f := range a.Operands {
			// A bare name is a remote of the configuration.
			if i == 0 && strings.ContainsAny(f.Text, ":/.") {
				a.use(remote, f)
			}
		}
	default:
		if len(a.Operands) > 1 {
			a.Operands[1].Makes = true
		}
		a.UseOperands(a.Operands)
		if len(a.Operands) == 1 {
			name := path.Base(strings.TrimSuffix(a.Operands[0].Text, ".git"))
			a.use(cuts, Literal(name, a.Operands[0].At))
		}
	}
}

func doSubmodule(a *Call) {
	args := a.Argv[1:]
	for i, f := range args {
		if !f.Is("foreach") {
			continue
		}
		words := args[i+1:]
		for len(words) > 0 && strings.HasPrefix(words[0].Text, "-") {
			words = words[1:]
		}
		a.joined(words)
		a.Via = "git submodule foreach"
		return
	}
}

func doBisect(a *Call) {
	if len(a.Operands) > 1 && a.Operands[0].Is("run") {
		args := a.Argv[1:]
		for i, f := range args {
			if f.Is("run") {
				a.Start(args[i+1:])
			}
		}
	}
}

func doWorktree(a *Call) {
	if len(a.Operands) < 2 {
		return
	}
	switch a.Operands[0].Text {
	case "add":
		f := a.Operands[1]
		f.Makes = true
		a.use(cuts, f)
	case "move":
		a.use(tree, a.Operands[1])
		for _, f := range a.Operands[1:] {
			a.use(cuts, f)
		}
	case "remove", "lock", "unlock", "repair":
		a.use(cuts, a.Operands[1])
	}
}

// doBundle: git bundle create writes its first operand anew, the other subcommands read it.
func doBundle(a *Call) {
	if len(a.Operands) < 2 {
		return
	}
	k := reads
	if !a.Operands[0].Is("verify") && !a.Operands[0].Is("list-heads") && !a.Operands[0].Is("unbundle") {
		k = writes
	}
	a.use(k, a.Operands[1])
}
