package program

import "strings"

// pagers that only print are harmless values.
var printers = set("cat", "/bin/cat", "true", "/bin/true", ":", "")

// places takes the expansions out of PS4 that only say where the shell is.
var places = strings.NewReplacer(
	"${BASH_SOURCE}", "", "${LINENO}", "", "$BASH_SOURCE", "", "$LINENO", "", "${FUNCNAME[0]}", "",
)

var compilers = set("gcc", "g++", "clang", "clang++", "cc", "c++")

// Steers reports whether a variable with this value makes programs run other code, and
// whether bash itself may run the value, which can then do what any command can. command is
// the program that gets the variable, "" for the shell itself.
func Steers(name, value string, known bool, command string) (yes, byShell bool) {
	if !Hijacks(name) || known && harmlessValue(name, value, command) {
		return false, false
	}
	switch before(name, "[") {
	case "PROMPT_COMMAND":
		byShell = true
	case "SHELLOPTS", "BASHOPTS":
		byShell = true
	case "POSIXLY_CORRECT":
		byShell = command == ""
	case "PS4", "BASH_ENV", "ENV":
		byShell = !known || strings.ContainsAny(value, "$`\\")
	}
	return true, byShell
}

// harmlessValue reports a value with which a variable that hijacks does nothing.
func harmlessValue(name, v, command string) bool {
	switch {
	case strings.HasSuffix(name, "PAGER") || strings.HasSuffix(name, "EDITOR") ||
		strings.HasSuffix(name, "ASKPASS"):
		return printers[v]
	case name == "PS4":
		return !strings.ContainsAny(places.Replace(v), "$`\\")
	case name == "POSIXLY_CORRECT":
		return command != "" // of a program: it changes how that works, not bash
	case name == "GIT_CONFIG_GLOBAL" || name == "GIT_CONFIG_SYSTEM" || name == "BASH_ENV" || name == "ENV" ||
		name == "HISTFILE":
		return v == "/dev/null" || v == ""
	case name == "PATH":
		for _, dir := range strings.Split(v, ":") {
			if !systemDir(dir) {
				return false
			}
		}
		return true
	case name == "CC" || name == "CXX" || name == "CMAKE_C_COMPILER" || name == "CMAKE_CXX_COMPILER":
		return compilers[v]
	case strings.HasPrefix(name, "CMAKE_") && strings.HasSuffix(name, "_LAUNCHER"):
		return v == "ccache" || v == "sccache"
	case name == "GOFLAGS":
		return onlyFlags(v, goFlags)
	case name == "GOTOOLCHAIN":
		return v == "local" || v == "auto" || strings.HasPrefix(v, "go1.")
	case name == "LESS":
		return !strings.ContainsAny(v, "+/!|")
	case name == "NODE_OPTIONS":
		return strings.HasPrefix(v, "--max-old-space-size=") && !strings.Contains(v, " ")
	case name == "MAKEFLAGS":
		return strings.HasPrefix(v, "-j") && AllDigits(v[2:])
	case name == "RUSTFLAGS":
		return onlyFlags(codegen.Replace(v), rustFlags)
	}
	return false
}

// goFlags choose what go builds and tests. Others name programs, files to write, or flags of a linker.
var goFlags = set(
	"a", "asan", "bench", "benchtime", "buildvcs", "count", "cover", "covermode", "coverpkg", "cpu", "failfast", "json",
	"mod", "modcacherw", "msan", "n", "p", "parallel", "race", "run", "short", "shuffle", "skip", "tags", "timeout",
	"trimpath", "v", "vet", "x",
)

// rustFlags choose how rustc generates code and what it warns of; those of -C are here by their names.
var rustFlags = set(
	"A", "D", "F", "O", "W", "cap-lints", "cfg", "codegen-units", "debug-assertions", "debuginfo", "g", "lto",
	"opt-level", "overflow-checks", "panic", "strip", "target-cpu", "target-feature", "v", "verbose",
)

// codegen makes each option behind -C a flag of its own.
var codegen = strings.NewReplacer("--codegen=", "-", "--codegen ", "-", "-C ", "-", "-C", "-")

// onlyFlags reports whether a value has no other flags than these. Lints are also glued to theirs.
func onlyFlags(v string, known map[string]bool) bool {
	takesNext := false
	for word := range strings.FieldsSeq(v) {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		lint := known["W"] && len(word) > 1 && strings.Contains("ADFW", word[1:2])
		if dash := word[0] == '-'; word[0] == '@' || dash == takesNext || dash && !known[name] && !lint {
			return false
		}
		takesNext = lint && len(word) == 2 || known["W"] && (word == "--cfg" || word == "--cap-lints")
	}
	return true
}

// KeepsPath reports whether PATH=… only adds system directories to what it was.
func KeepsPath(src string) bool {
	_, v, _ := strings.Cut(src, "=")
	v = strings.Trim(v, `"`)
	for _, dir := range strings.Split(v, ":") {
		if dir != "$PATH" && dir != "${PATH}" && !systemDir(dir) {
			return false
		}
	}
	return true
}

// Builtin reports whether a name is a builtin of bash: with a bare name no program is
// looked up.
func Builtin(name string) bool { return builtins[name] }

var builtins = set(
	".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete",
	"compopt",
	"continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export", "fc", "fg", "getopts",
	"hash",
	"help", "history", "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read",
	"readarray", "readonly",
	"return", "set", "shift", "shopt", "source", "suspend", "test", "times", "trap", "true", "false", "type", "typeset",
	"ulimit", "umask", "unalias", "unset", "wait",
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}
