package shellparse

// doers are what a table line cannot say, by the name in its notes.
func doers(name string) func(*act) {
	switch name {
	case "shell":
		return doShell
	case "othershell":
		return doOtherShell
	case "eval":
		return doEval
	case "source":
		return doSource
	case "exec":
		return doExec
	case "command", "builtin":
		return doCommand
	case "cd":
		return doCd
	case "trap":
		return doTrap
	case "test":
		return doTest
	case "read":
		return doRead
	case "printf":
		return doPrintf
	case "npx":
		return doNpx
	case "fc":
		return doFc
	case "wait":
		return doWait
	case "compgen":
		return doCompgen
	case "let":
		return doLet
	case "unset":
		return doUnset
	case "set":
		return doSet
	case "shopt":
		return doShopt
	case "alias":
		return doAlias
	case "declare":
		return doDeclare
	case "shift":
		return doShift
	case "hash":
		return doHash
	case "npmconfig":
		return doNpmConfig
	case "enable":
		return doEnable
	case "data":
		return doData
	case "find":
		return doFind
	case "fd":
		return doFd
	case "xargs":
		return doXargs
	case "parallel":
		return doParallel
	case "joined":
		return doJoined
	case "sed":
		return doSed
	case "awk":
		return doAwk
	case "jq":
		return doJq
	case "yq", "rg", "pytest", "dockerbuild", "cargo", "npm", "git":
		return doOperands
	case "dd":
		return doDd
	case "rename":
		return doRename
	case "headtail":
		return doHeadTail
	case "split", "csplit":
		return doSplit
	case "patch":
		return doPatch
	case "tar":
		return doTar
	case "zip":
		return doZip
	case "unzip":
		return doUnzip
	case "compress":
		return doCompress
	case "cpio":
		return doCpio
	case "dpkg", "apt":
		return doPackages
	case "sudo":
		return doSudo
	case "su":
		return doSu
	case "gdb":
		return doGdb
	case "flock":
		return doFlock
	case "capsh":
		return doCapsh
	case "busybox":
		return doBusybox
	case "bwrap":
		return doTail
	case "tail":
		return doTail
	case "entr":
		return doEntr
	case "stdincode":
		return func(a *act) { a.stdinCode() }
	case "crontab":
		return doCrontab
	case "runner":
		return doRunner
	case "socat":
		return doSocat
	case "terminal":
		return doTerminal
	case "checkout":
		return doCheckout
	case "gitdiff":
		return doGitDiff
	case "gitconfig":
		return doGitConfig
	case "gitclone", "gitremote", "gitremoteadd":
		return doGitRemote
	case "submodule":
		return doSubmodule
	case "bisect":
		return doBisect
	case "worktree":
		return doWorktree
	case "make":
		return doMake
	case "cmake":
		return doCmake
	case "go":
		return doGo
	case "interpreter", "python", "perl":
		return doInterpreter
	case "rustc", "cc":
		return doCompiler
	case "sqlite", "psql":
		return doSQL
	case "curl":
		return doCurl
	case "wget":
		return doWget
	case "ssh":
		return doSSH
	case "rsync":
		return doRsync
	case "openssl":
		return doOpenssl
	case "ip":
		return doIP
	case "vim":
		return doVim
	case "ed":
		return doEd
	case "less":
		return doLess
	case "man":
		return doMan
	case "fzf":
		return doOperands
	}
	return nil
}

func doOperands(a *act) { a.useOperands(a.operands) }
