package shellparse

// doers are what a table line cannot say, by the name in its notes.
func doers(name string) func(*act) {
	switch name {
	case "shell":
		return doShell
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
	case "unset":
		return doUnset
	case "set":
		return doSet
	case "shopt":
		return doShopt
	case "alias":
		return doAlias
	case "enable":
		return doEnable
	case "othershell":
		return doOtherShell
	}
	return nil
}
