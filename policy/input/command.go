package input

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse"
)

// globalOptions are the options before a subcommand that take the next word, for
// programs whose meaning is in their subcommand: git -C x push is a push. Every
// other option before a subcommand stands alone.
var globalOptions = map[string][]string{
	"git": {
		"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env",
		"--attr-source",
	},
	"gh": {"-R", "--repo"},
	"docker": {
		"-c", "--context", "-H", "--host", "-l", "--log-level", "--config", "--tlscacert", "--tlscert",
		"--tlskey",
	},
	"podman": {"-c", "--connection", "--url", "--root", "--runroot", "--log-level"},
	"npm":    {"--prefix", "-C", "-w", "--workspace", "--registry", "--userconfig", "--loglevel", "--tag"},
	"pnpm":   {"--dir", "-C", "--filter", "-F"},
	"yarn":   {"--cwd"},
	"cargo":  {"-C", "--config", "-Z", "--color", "--manifest-path"},
	"go":     {"-C"},
	"gem":    {"--config-file"},
	"kubectl": {
		"-n", "--namespace", "--context", "--kubeconfig", "--cluster", "-s", "--server", "--user",
		"--token",
	},
	"helm":      {"-n", "--namespace", "--kube-context", "--kubeconfig"},
	"systemctl": {"-H", "--host", "-M", "--machine", "-t", "--type", "-p", "--property"},
	"terraform": {"-chdir"},
	"aws":       {"--profile", "--region", "--endpoint-url", "--output"},
	"gcloud":    {"--project", "--account", "--configuration"},
	"poetry":    {"-C", "--directory", "-P", "--project"},
	"uv":        {"--directory", "--project"},
	"dotnet":    nil, "twine": nil, "pip": nil, "python": nil,
}

// commandFacts derive what a command means from its words.
func commandFacts(id string, c shellparse.Command) Command {
	f := Command{
		ID: id, Name: c.Name, Path: c.Path, Known: c.Name != "", Via: c.Via, Dir: c.Dir, Hosts: c.Hosts,
		Argv: []string{c.Name},
	}
	for _, w := range c.Args {
		f.Argv = append(f.Argv, w.Text)
		f.Known = f.Known && w.Known
	}
	for _, a := range c.Env {
		f.Env = append(f.Env, a.Name)
	}
	for _, file := range c.Files {
		ff := File{
			Path: file.Path, Known: file.Known, Op: string(file.Access),
			Recursive: file.Recursive, Base: path.Base(file.Path),
		}
		if file.Known {
			ff.Ancestors = ancestors(file.Path)
		}
		f.Files = append(f.Files, ff)
	}
	f.Text = strings.Join(f.Argv, " ")
	f.Literal = literalPrefixes(f.Argv)
	f.Plain = plain(f)
	f.Flags, f.Operands = Split(c.Name, f.Argv[1:])
	f.Prefixes = prefixes(c.Name, f.Operands)
	if module, rest, ok := pythonModule(c.Name, f.Argv[1:]); ok {
		_, operands := Split(module, rest)
		f.Prefixes = append(f.Prefixes, prefixes(module, operands)...)
	}
	return f
}

// pythonModule: python -m twine upload means twine upload.
func pythonModule(name string, words []string) (module string, rest []string, ok bool) {
	i := slices.Index(words, "-m")
	if !strings.HasPrefix(name, "python") || i < 0 || i+1 >= len(words) {
		return "", nil, false
	}
	return words[i+1], words[i+2:], true
}

// Split parts words into flags and operands. Words after -- are operands, and
// so are the values of flags outside globalOptions: which flags take a value is
// not known in general, and a rule must not miss an operand.
func Split(name string, words []string) (flags, operands []string) {
	valued := globalOptions[name]
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "--":
			return flags, append(operands, words[i+1:]...)
		case len(w) < 2 || w[0] != '-':
			operands = append(operands, w)
		case strings.HasPrefix(w, "--"):
			flag, _, hasValue := strings.Cut(w, "=")
			flags = append(flags, flag)
			if !hasValue && len(operands) == 0 && slices.Contains(valued, flag) {
				i++
			}
		case len(operands) == 0 && slices.Contains(valued, w):
			flags = append(flags, w)
			i++
		default:
			flags = append(flags, w)
			flags = append(flags, Clustered(w)...)
		}
	}
	return flags, operands
}

// Clustered takes -rf apart. The caller keeps the word itself, for programs with long options after one dash.
func Clustered(w string) []string {
	if len(w) == 2 {
		return nil
	}
	var out []string
	for _, r := range w[1:] {
		if r == '=' {
			break
		}
		out = append(out, "-"+string(r))
	}
	return out
}

// prefixes returns the name and the name with 1 to 8 operands after it, whole words.
func prefixes(name string, operands []string) []string {
	if name == "" {
		return nil
	}
	out := []string{name}
	p := name
	for i, o := range operands {
		if i == 8 {
			break
		}
		p += " " + o
		out = append(out, p)
	}
	return out
}

// literalPrefixes returns the first words as they stand, for rules that allow: a rule for git log must not allow git
// -c core.pager=evil log.
func literalPrefixes(argv []string) []string {
	var out []string
	p := argv[0]
	for i := 1; ; i++ {
		out = append(out, p)
		if i == len(argv) || i == 16 {
			return out
		}
		p += " " + argv[i]
	}
}

// structure are the ways to reach a command that change nothing of what it does.
var structure = []string{"pipeline", "substitution", "process substitution", "subshell", "function"}

// harmlessEnv are variables that do not choose what code runs.
var harmlessEnv = []string{
	"CGO_ENABLED", "CI", "CLICOLOR", "COLUMNS", "DEBUG", "FORCE_COLOR", "GOARCH", "GOOS", "LANG", "LC_ALL", "LINES",
	"NODE_ENV", "NO_COLOR", "PYTHONUNBUFFERED", "RUST_BACKTRACE", "RUST_LOG", "TERM", "TZ",
}

// systemDirs hold the programs that a bare name means.
var systemDirs = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}

// plain reports whether a rule that names the program may allow the command.
func plain(f Command) bool {
	if !f.Known || strings.Contains(f.Path, "/") && !slices.Contains(systemDirs, path.Dir(f.Path)) {
		return false
	}
	for _, v := range f.Via {
		if !slices.Contains(structure, v) {
			return false
		}
	}
	for _, e := range f.Env {
		if !slices.Contains(harmlessEnv, e) {
			return false
		}
	}
	return true
}

// fetching are the commands of a script that read the network, in the order of the text. It
// is made once for all commands, so that a long line costs no more for each.
type fetching struct {
	substituted []shellparse.Pos // those in a substitution, by Offset
	linked      bool             // one of them is
	last        int              // index of the last one; -1: there is none
}

func newFetching(cmds []shellparse.Command) fetching {
	f := fetching{last: -1}
	for i, c := range cmds {
		if c.Makes() != "download" {
			continue
		}
		f.last = i
		f.linked = f.linked || linked(c)
		if slices.ContainsFunc(c.Via, isSubstitution) {
			f.substituted = append(f.substituted, c.At)
		}
	}
	slices.SortFunc(f.substituted, func(a, b shellparse.Pos) int { return cmp.Compare(a.Offset, b.Offset) })
	return f
}

// feeds reports whether the standard input or the words of the i-th command come from a program
// that reads the network: it stands in a pipeline with one, or around one. Pipelines of one
// script are not told apart, which asks once too often. A process substitution stands in front of
// the command that writes into it: curl a.org > >(sh).
func (f fetching) feeds(i int, c shellparse.Command) bool {
	if f.linked && linked(c) || i < f.last && slices.Contains(c.Via, "process substitution") {
		return true
	}
	return f.within(c.At, 1) || f.within(c.Fed, 0) // a command is not in itself
}

// within reports whether one of the commands in a substitution stands in a text, behind its first bytes.
func (f fetching) within(text shellparse.Pos, behind int32) bool {
	from, _ := slices.BinarySearchFunc(f.substituted, text.Offset+behind, func(p shellparse.Pos, offset int32) int {
		return cmp.Compare(p.Offset, offset)
	})
	for _, p := range f.substituted[from:] {
		if p.Offset >= text.End {
			return false
		}
		if p.End <= text.End {
			return true
		}
	}
	return false
}

func isSubstitution(via string) bool { return strings.HasSuffix(via, "substitution") }

// linked: its standard input or output is another command's.
func linked(c shellparse.Command) bool {
	return slices.Contains(c.Via, "pipeline") || slices.ContainsFunc(c.Via, isSubstitution)
}
