package shellparse

import (
	"fmt"
	"path"
	"strings"
)

// gitSettings looks at -c NAME=VALUE in front of a subcommand.
func (a *act) gitSettings() {
	for _, f := range a.values["-c"] {
		if !f.known {
			a.opaque("unknown_option", "git is given a setting that is only known when it runs: "+f.text, f.at)
			continue
		}
		key, val, _ := strings.Cut(f.text, "=")
		a.gitSetting(key, f.sub(val))
	}
}

// gitPlain are the sections and keys of git's configuration that execute nothing.
var gitPlain = []string{
	"user.", "author.", "committer.", "color.", "advice.", "init.defaultbranch", "commit.gpgsign", "commit.verbose", "commit.cleanup",
	"pull.", "push.", "fetch.", "log.", "status.", "branch.", "column.", "format.", "rerere.", "blame.", "stash.", "tag.gpgsign", "tag.sort",
	"merge.conflictstyle", "merge.ff", "merge.renames", "merge.stat", "rebase.auto", "rebase.update", "diff.noprefix", "diff.mnemonicprefix", "diff.renames", "diff.algorithm", "diff.colormoved", "diff.context", "diff.wserrorhighlight", "diff.interhunkcontext", "diff.submodule",
	"core.quotepath", "core.autocrlf", "core.abbrev", "core.filemode", "core.eol", "core.ignorecase", "core.longpaths", "core.symlinks", "core.safecrlf", "core.precomposeunicode", "core.untrackedcache", "core.commentchar", "core.compression", "core.whitespace", "core.bare", "core.logallrefupdates",
	"gc.", "pack.", "index.", "protocol.version", "submodule.recurse", "submodule.fetchjobs", "safe.directory", "http.version", "http.postbuffer", "http.lowspeed", "http.followredirects", "http.sslverify", "transfer.", "receive.deny", "feature.", "grep.", "help.autocorrect", "interactive.singlekey", "maintenance.", "checkout.", "clean.", "worktree.", "versionsort.", "remote.origin.fetch", "remote.origin.prune", "url.", "notes.", "apply.", "am.", "extensions.", "lfs.concurrenttransfers", "clone.",
}

// gitSetting judges one setting by what its key makes git do with the value.
func (a *act) gitSetting(key string, val field) {
	key = strings.ToLower(key)
	for _, plain := range gitPlain {
		if strings.HasPrefix(key, plain) {
			return
		}
	}
	switch {
	case strings.HasPrefix(key, "alias."):
		if text, ok := strings.CutPrefix(val.text, "!"); ok {
			a.shellText(val.sub(text), nil)
		} else {
			a.shellText(val.sub("git "+val.text), nil)
		}
	case val.is("") || val.is("true") || val.is("false") || val.is("0") || val.is("1") || val.is("cat"):
	case strings.HasPrefix(key, "include"), key == "core.hookspath", key == "init.templatedir", key == "core.attributesfile", key == "core.worktree", key == "protocol.ext.allow", strings.HasPrefix(key, "protocol."):
		a.opaque("unknown_option", fmt.Sprintf("git reads what it runs from %s=%s", key, val.text), val.at)
	default:
		a.shellText(val.sub(strings.TrimPrefix(val.text, "!")), nil)
	}
	if len(a.inner) > 0 {
		a.via = "git -c " + key
	}
}

// dashes splits the words of a command at "--".
func dashes(args []field) (front, back []field) {
	for i, f := range args {
		if f.is("--") {
			return args[:i], args[i+1:]
		}
	}
	return args, nil
}

// doCheckout: behind "--" there are files, in front of it mostly branches.
func doCheckout(a *act) {
	_, files := dashes(a.call.argv[1:])
	for _, f := range files {
		a.use(writes, f)
	}
	for _, f := range a.operands {
		if strings.HasPrefix(f.text, "/") || strings.HasPrefix(f.text, "./") || strings.HasPrefix(f.text, "../") || f.is(".") {
			a.use(writes, f)
		}
	}
}

// doGitDiff reads files outside of the tree only with --no-index, and when it is
// given absolute paths.
func doGitDiff(a *act) {
	for _, f := range a.operands {
		if a.effects["noindex"] || strings.HasPrefix(f.text, "/") || strings.HasPrefix(f.text, "../") {
			a.use(reads, f)
		}
	}
}

func doGitConfig(a *act) {
	if a.effects["data"] || len(a.operands) < 2 {
		return
	}
	ops := a.operands
	if ops[0].is("set") {
		ops = ops[1:]
	}
	if ops[0].is("get") || ops[0].is("list") || ops[0].is("unset") || len(ops) < 2 {
		return
	}
	if ops[0].lit() == "" {
		a.opaque("unknown_option", "git is given a setting that is only known when it runs", ops[0].at)
		return
	}
	a.gitSetting(ops[0].text, ops[1])
}

func doGitRemote(a *act) {
	a.gitSettings()
	for _, f := range a.operands {
		if strings.Contains(before(f.text, "/"), "::") {
			a.opaque("unknown_option", "git runs a remote helper: "+f.text, f.at)
			return
		}
	}
	switch a.spec.do {
	case "gitremoteadd":
		for _, f := range a.operands {
			if strings.Contains(f.text, "://") || strings.Contains(f.text, ":") {
				a.use(remote, f)
			}
		}
	case "gitremote":
		for i, f := range a.operands {
			// A bare name is a remote of the configuration.
			if i == 0 && strings.ContainsAny(f.text, ":/.") {
				a.use(remote, f)
			}
		}
	default:
		a.useOperands(a.operands)
		if len(a.operands) == 1 {
			name := path.Base(strings.TrimSuffix(a.operands[0].text, ".git"))
			a.use(cuts, literal(name, a.operands[0].at))
		}
	}
}

func doSubmodule(a *act) {
	args := a.call.argv[1:]
	for i, f := range args {
		if !f.is("foreach") {
			continue
		}
		words := args[i+1:]
		for len(words) > 0 && strings.HasPrefix(words[0].text, "-") {
			words = words[1:]
		}
		a.joined(words)
		a.via = "git submodule foreach"
		return
	}
}

func doBisect(a *act) {
	if len(a.operands) > 1 && a.operands[0].is("run") {
		args := a.call.argv[1:]
		for i, f := range args {
			if f.is("run") {
				a.command(args[i+1:])
			}
		}
	}
}

func doWorktree(a *act) {
	if len(a.operands) < 2 {
		return
	}
	switch a.operands[0].text {
	case "add":
		a.use(cuts, a.operands[1])
	case "move":
		for _, f := range a.operands[1:] {
			a.use(cuts, f)
		}
	case "remove", "lock", "unlock", "repair":
		a.use(cuts, a.operands[1])
	}
}
