package shellparse

import (
	"fmt"
	"strings"
)

// alwaysLive names variables that a shell reads itself, exported or not.
func alwaysLive(name string) bool {
	switch name {
	case "PATH", "BASH_ENV", "ENV", "PS4", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "CDPATH", "EXECIGNORE", "BASH_LOADABLES_PATH", "BASH_CMDS", "BASH_ALIASES", "POSIXLY_CORRECT":
		return true
	}
	return false
}

// hijackNames are variables whose value a program executes or loads, and
// hijackParts are the parts of names that say so.
var hijackNames = set(
	"PATH", "BASH_ENV", "ENV", "PS4", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "CDPATH", "SHELL", "HOME",
	"EXECIGNORE", "BASH_LOADABLES_PATH", "BASH_CMDS", "BASH_ALIASES", "POSIXLY_CORRECT", "EDITOR", "VISUAL", "PAGER", "BROWSER", "LESS", "LESSOPEN", "LESSCLOSE",
	"MANPAGER", "MANOPT", "VIMINIT", "EXINIT", "GVIMINIT", "MYVIMRC", "VIM", "VIMRUNTIME", "NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "MAVEN_OPTS", "GRADLE_OPTS", "SBT_OPTS",
	"MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "MAKESHELL", "TAR_OPTIONS", "TAPE", "RSYNC_RSH", "RSYNC_CONNECT_PROG", "CVS_RSH", "ZIPOPT", "UNZIP", "XZ_OPT", "GZIP",
	"GOFLAGS", "GOTOOLDIR", "GOROOT", "GOTOOLCHAIN", "GOENV", "GOPACKAGESDRIVER", "GOCACHEPROG", "GOAUTH", "CC", "CXX", "LD", "AR", "AS", "FC", "CPP", "PKG_CONFIG", "CGO_CFLAGS", "CGO_LDFLAGS",
	"RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTDOC", "RUSTFLAGS", "RUSTUP_TOOLCHAIN",
	"SSH_ASKPASS", "SUDO_ASKPASS", "SUDO_EDITOR", "SYSTEMD_EDITOR", "SYSTEMD_PAGER", "TERMINFO", "TERMCAP", "TERMINFO_DIRS",
	"GCONV_PATH", "LOCPATH", "NLSPATH", "GLIBC_TUNABLES", "GETCONF_DIR", "HOSTALIASES", "RESOLV_HOST_CONF", "MALLOC_TRACE", "LOCALDOMAIN", "RES_OPTIONS",
	"OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "SSLKEYLOGFILE", "CURL_HOME", "WGETRC", "NETRC", "INPUTRC", "SCREENRC", "TMUX_TMPDIR",
	"KUBECONFIG", "KUBE_EDITOR", "DOCKER_CONFIG", "DOCKER_HOST", "HGRCPATH", "HGEDITOR", "HGMERGE", "SVN_EDITOR", "SVN_SSH", "CVSEDITOR", "BZR_EDITOR", "BZR_SSH",
	"RUBYOPT", "RUBYLIB", "PERLLIB", "PERL5LIB", "PERL5OPT", "PERL5DB", "PERL5SHELL", "PHPRC", "PHP_INI_SCAN_DIR", "LUA_INIT", "LUA_PATH", "LUA_CPATH", "GEM_PATH", "GEM_HOME", "BUNDLE_GEMFILE", "R_PROFILE", "R_PROFILE_USER", "R_ENVIRON",
	"PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "VIRTUAL_ENV", "ANSIBLE_CONFIG", "GDBHISTFILE", "PSQLRC", "PSQL_EDITOR", "MYSQL_HOME", "SQLITE_HISTORY",
	"TMPPREFIX", "ZDOTDIR", "FPATH", "ZSH_ENV", "FCEDIT", "HISTFILE", "XAUTHORITY", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "QT_PLUGIN_PATH", "GTK_MODULES", "GTK_PATH", "GIO_EXTRA_MODULES",
	"AWKPATH", "AWKLIBPATH", "COMP_WORDS", "EMACSLOADPATH", "EMACSDATA", "CMAKE_TOOLCHAIN_FILE", "CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER", "CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER", "CONFIG_SHELL", "CONFIG_SITE", "GHC_PACKAGE_PATH", "ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS", "ELIXIR_ERL_OPTIONS", "TEXINPUTS", "TEXMFCNF", "GROFF_TMAC_PATH", "PARALLEL", "WATCH_SHELL",
)

var hijackParts = []string{
	"PRELOAD", "LD_LIBRARY", "LD_AUDIT", "DYLD_", "EDITOR", "PAGER", "ASKPASS", "_COMMAND", "_CMD", "_SHELL", "_WRAPPER", "_LAUNCHER", "_RUNNER", "BASH_FUNC_",
	"PYTHON", "NPM_CONFIG_", "YARN_", "PNPM_", "CARGO_", "GIT_", "LD_", "PERL5", "RUBY",
}

// harmlessNames are exceptions to hijackParts: they only change what is printed or
// how the work is done.
var harmlessNames = set(
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
	"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_TRACE", "GIT_MERGE_VERBOSITY", "GIT_ADVICE",
	"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONFAULTHANDLER", "PYTHONOPTIMIZE", "PYTHONVERBOSE", "PYTHONNOUSERSITE", "PYTHONASYNCIODEBUG", "PYTHONDEVMODE",
	"CARGO_TERM_COLOR", "CARGO_INCREMENTAL", "CARGO_NET_OFFLINE", "CARGO_BUILD_JOBS", "CARGO_PROFILE_RELEASE_LTO", "CARGO_PROFILE_DEV_DEBUG", "CARGO_TERM_VERBOSE",
	"NPM_CONFIG_LOGLEVEL", "NPM_CONFIG_COLOR", "NPM_CONFIG_YES", "NPM_CONFIG_FUND", "NPM_CONFIG_AUDIT", "NPM_CONFIG_PROGRESS",
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// hijacks reports whether a variable decides what a program executes.
func hijacks(name string) bool {
	if hijackNames[name] {
		return true
	}
	upper := strings.ToUpper(name)
	if harmlessNames[upper] {
		return false
	}
	for _, part := range hijackParts {
		if strings.Contains(upper, part) {
			return true
		}
	}
	return false
}

// pagers that only print are harmless values.
var printers = set("cat", "/bin/cat", "true", "/bin/true", ":", "")

var compilers = set("gcc", "g++", "clang", "clang++", "cc", "c++")

// harmlessValue are values with which a variable of hijackNames does nothing.
func harmlessValue(a Assign, command string) bool {
	if !a.Value.Known {
		return false
	}
	v := a.Value.Text
	switch {
	case strings.HasSuffix(a.Name, "PAGER") || strings.HasSuffix(a.Name, "EDITOR") || strings.HasSuffix(a.Name, "ASKPASS"):
		return printers[v]
	case a.Name == "POSIXLY_CORRECT":
		return command != "" // of a program: it changes how that works, not bash
	case a.Name == "GIT_CONFIG_GLOBAL" || a.Name == "GIT_CONFIG_SYSTEM" || a.Name == "BASH_ENV" || a.Name == "ENV" || a.Name == "HISTFILE":
		return v == "/dev/null" || v == ""
	case a.Name == "PATH":
		for _, dir := range strings.Split(v, ":") {
			if !systemDir(dir) {
				return false
			}
		}
		return true
	case a.Name == "CC" || a.Name == "CXX" || a.Name == "CMAKE_C_COMPILER" || a.Name == "CMAKE_CXX_COMPILER":
		return compilers[v]
	case strings.HasPrefix(a.Name, "CMAKE_") && strings.HasSuffix(a.Name, "_LAUNCHER"):
		return v == "ccache" || v == "sccache"
	case a.Name == "GOFLAGS":
		return !strings.Contains(v, "exec") && !strings.Contains(v, "vettool") && !strings.Contains(v, "overlay") && !strings.Contains(v, "modfile")
	case a.Name == "GOTOOLCHAIN":
		return v == "local" || v == "auto" || strings.HasPrefix(v, "go1.")
	case a.Name == "LESS":
		return !strings.ContainsAny(v, "+/!|")
	case a.Name == "NODE_OPTIONS":
		return strings.HasPrefix(v, "--max-old-space-size=") && !strings.Contains(v, " ")
	case a.Name == "MAKEFLAGS":
		return strings.HasPrefix(v, "-j") && digits(v[2:])
	case a.Name == "RUSTFLAGS":
		return !strings.Contains(v, "linker")
	}
	return false
}

// keepsPath reports whether PATH=… only adds system directories to what it was.
func keepsPath(src string) bool {
	_, v, _ := strings.Cut(src, "=")
	v = strings.Trim(v, `"`)
	for _, dir := range strings.Split(v, ":") {
		if dir != "$PATH" && dir != "${PATH}" && !systemDir(dir) {
			return false
		}
	}
	return true
}

// environment reports a variable that makes programs run other code.
func (w *walker) environment(a Assign, command string, at Pos) {
	if !hijacks(a.Name) || harmlessValue(a, command) {
		return
	}
	message := fmt.Sprintf("%s decides which code programs run", a.Name)
	if command != "" {
		message = fmt.Sprintf("%s decides which code %s runs", a.Name, command)
	}
	w.opaque(Opaque{Code: "environment", Message: message, Hint: "leave " + a.Name + " as it is", Command: command, At: at, CommandsOnly: true})
}

// readsShellVariables are the builtins for which IFS and the like are ordinary.
var readsShellVariables = set("read", "mapfile", "readarray", "printf", "echo", "set", ":", "true", "test", "[", "local", "unset")

// environments judges what stands in front of a command.
func (w *walker) environments(a *act) {
	for _, e := range a.cmd.Env {
		if a.builtin && readsShellVariables[a.cmd.Name] && e.Name != "PATH" {
			continue
		}
		w.environment(e, a.cmd.Name, e.Value.At)
		if e.Name == "BASH_ENV" || e.Name == "ENV" {
			// The shell reads the file, and names its words in what it prints.
			a.cmd.Files = append(a.cmd.Files, a.w.file(field{text: e.Value.Text, known: e.Value.Known, at: e.Value.At}, Read, false, a.sc)...)
			continue
		}
		if e.Value.Known && (strings.HasPrefix(e.Value.Text, "/") || strings.HasPrefix(e.Value.Text, "~/")) && !strings.ContainsAny(e.Value.Text, ": ") {
			a.cmd.Files = append(a.cmd.Files, File{Path: e.Value.Text, Known: true, Access: Read, At: e.Value.At})
		}
	}
}

// builtins of bash: with a bare name no program is looked up.
var builtins = set(
	".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete", "compopt",
	"continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export", "fc", "fg", "getopts", "hash",
	"help", "history", "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly",
	"return", "set", "shift", "shopt", "source", "suspend", "test", "times", "trap", "true", "false", "type", "typeset",
	"ulimit", "umask", "unalias", "unset", "wait",
)
