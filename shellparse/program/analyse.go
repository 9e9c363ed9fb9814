// Package program knows what programs do with their words.
//
// A [Call] goes in: the name of a program and its words, as a shell would give them to it, with the
// program in front. [Call.Analyse] tells a [Shell] which files the program uses and how, which
// hosts it talks to, which other programs and which texts it starts, and which parts nobody can
// read here.
//
//	call := program.Call{Shell: shell, Name: "tar", Argv: words} // tar -C src -xzf a.tgz
//	call.Analyse()
//	// shell is told: read a.tgz, write src and all below it
//
// If Analyse returns a name, only the shell can say what the call does. Then it has read the
// options, and told at most their values, which of them nobody can read here, and that the
// program itself is code, if it lies in no directory of the system. What the call starts, the
// shell puts into Call.Inner and does after Analyse. [LooksFor] returns what a program executes
// though no word names it, and [Steers] which variables make programs run other code.
//
// Most of the knowledge is text, one option on a line, in tables/, which tables/README.md
// explains. The handlers (do_*.go) are for what a table cannot say. A new program belongs
// in a table, and its cases in testdata/programs.txt and guard/testdata.
//
// Guaranteed: a word that is not known is never taken for a known one. For a program that no
// table has, each word is told as read, and one with a slash, a dot or a pattern also as written.
// Of a word with = in it, or with @ or ! in front, what is behind is told too. Of an option only a
// value is told: behind =, from a slash on, and behind one letter if it has a slash or a dot. A
// word that is too long for a path (4096 bytes) is not told. What words become, and what a shell
// does by itself (cd, eval, exec, …), is not known here: that is package shellparse, which calls
// this one.
package program

import (
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/source"
)

// Shell is what starts a command. The analysis tells it what the command does, in the order
// in which the command does it.
type Shell interface {
	// File is a use of a file; recursive is the whole tree below it.
	File(f Word, access Access, recursive bool)
	// Code is a file that the command reads and executes.
	Code(f Word)
	// CodeInput is the file on the standard input of the command, which it executes.
	CodeInput()
	// Inline is code of another language in the words of the command.
	Inline(code Word)
	// Host is a host that the command may talk to.
	Host(name string)
	// Chdir moves the rest of the command to another directory.
	Chdir(to Word)
	// Setenv sets NAME=VALUE for what the command starts.
	Setenv(assignment Word)
	// Steer is a variable that the command is told to set.
	Steer(name string, value Word)
	// Start is a command that the command starts, with these words; none is no command.
	Start(words []Word)
	// Exec is Start without the input of the command; elsewhere is a directory that is not
	// known.
	Exec(words []Word, elsewhere bool)
	// Again is the command itself with other words, which it may have as well.
	Again(argv []Word)
	// Run is text that the command runs as a shell does.
	Run(text Word)
	// Written returns what the line itself writes into a file, where that is known.
	Written(f Word) []string
	// Opaque is a part that nobody can read here. Its code is one of shellparse.Opaque.
	Opaque(code, message string, at source.Pos)
}

// Call is one command that is about to start, and what its words mean.
type Call struct {
	Shell

	Name   string // the last segment of the program's path
	Argv   []Word // its words, with the program in front
	At     source.Pos
	In     Input // its standard input
	Within bool  // another command starts it, which may give it an input
	Fed    bool  // as Within, or the shell has another input itself
	Second bool  // this is another reading of the words; an option that the table lacks makes it invalid

	Sub  string // its subcommand, where the program has some; Analyse finds it
	Told bool   // an option names a file of code, in place of what the program looks for; Analyse sets it

	Listed bool // a table has the program: what [Knows] says; Analyse sets it

	// What Analyse reads of the words.
	spec     *spec
	unlisted bool         // the word in front is an option that the table does not have
	loose    []source.Pos // operands that may be the value of such an option
	Operands []Word
	Options  []string          // as they stand, in order, letter by letter and without values: -r, --force
	Effects  map[string]bool   // what options change, by names that the tables give it
	Values   map[string][]Word // of options, by their first spelling in the table

	// Inner is what the call starts: the shell appends to it in Start, Exec, Again and Run, and
	// does it when the call itself is done with.
	Inner []func()
	Via   string // how that is reached; "": the name
}

// Analyse reads the options and tells the shell what the call does. It returns the name of what only the shell itself
// can do, and has then told at most what the package doc says, or "".
func (a *Call) Analyse() string {
	if text := a.Argv[0].Text; strings.Contains(text, "/") {
		if dir := path.Dir(path.Clean(text)); !systemDir(dir) {
			a.Code(a.Argv[0])
		}
	}
	a.spec = find(a.Name)
	a.Listed = a.spec != nil
	args := a.Argv[1:]
	if len(args) == 1 && (args[0].Is("--help") || args[0].Is("--version")) && a.spec != nil && a.spec.shell == "" {
		return "" // it prints, whatever else it does with other words
	}
	if len(args) == 1 && a.spec != nil && a.spec.asksHelp(args[0].Lit()) {
		return ""
	}
	if a.spec != nil && len(a.spec.operands) > 0 && a.spec.operands[0] == subname {
		args = a.subcommand(args)
	}
	if a.spec == nil {
		a.Generic(args)
		return ""
	}
	a.parse(args)
	switch {
	case a.spec.shell != "":
		return a.spec.shell
	case a.spec.handle != nil:
		a.spec.handle(a)
	default:
		a.UseOperands(a.Operands)
	}
	if a.Effects["listed"] {
		a.listed(treeNames, Literal("-", a.At))
	}
	return ""
}

// find returns what the tables say of a program; versions share one (python3.12).
func find(name string) *spec {
	if s := programs()[name]; s != nil {
		return s
	}
	base := strings.TrimRight(name, "0123456789.-")
	if base != name && len(base) > 1 && !builtins[base] { // set2 is no set
		return programs()[base]
	}
	return nil
}

// asksHelp reports whether an option that stands alone is one of those by which programs ask for help or a
// version, of a program whose options are all known, and which has none of that name.
func (s *spec) asksHelp(word string) bool {
	switch word {
	case "-h", "-?", "-help", "-V", "-version":
		return s.strict && s.opts[word] == (opt{})
	}
	return false
}

func systemDir(dir string) bool {
	switch dir {
	case "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin":
		return true
	}
	return false
}

// subcommand skips the options in front of a subcommand and goes on with its own
// entry.
func (a *Call) subcommand(args []Word) []Word {
	program := a.spec
	i := a.options(program, args, true)
	a.Operands = nil
	if program.do == "git" {
		a.gitSettings()
		if i < len(args) {
			a.workTree(args[i])
		}
		a.Values = nil
	}
	if i >= len(args) {
		a.spec = &spec{repeat: -1}
		return nil
	}
	sub := args[i]
	if a.Name == "cargo" && strings.HasPrefix(sub.Skeleton, "+") && !sub.Many && i+1 < len(args) {
		return a.subcommand(args[i+1:]) // a toolchain
	}
	if sub.Lit() == "" {
		a.Opaque("unknown_command", a.Name+" runs a subcommand that is only known when it runs", sub.At)
		a.spec = nil
		return args[i+1:]
	}
	a.Sub = sub.Text
	if s := a.subSpec(program, sub.Text); s != nil {
		a.spec = s
		if len(s.operands) > 0 && s.operands[0] == subname {
			return a.subcommand(args[i+1:])
		}
		return args[i+1:]
	}
	if s := a.subSpec(program, "*"); s != nil {
		a.spec = s
		return args[i:]
	}
	a.spec = nil
	return args[i+1:]
}

func (a *Call) subSpec(program *spec, sub string) *spec {
	if s := programs()[a.Name+" "+sub]; s != nil {
		return s
	}
	return programs()[program.names[0]+" "+sub]
}

// UseOperands gives each operand its meaning.
func (a *Call) UseOperands(list []Word) {
	s := a.spec
	shift := 0
	if a.Effects["nodata"] {
		shift = 1
	}
	if s.none != "" && s.repeat >= 0 && len(list)+shift <= s.repeat && !(s.repeat > 0 && a.In.Kind != Inherited) {
		k := s.operands[s.repeat]
		if k == reads && a.Effects["rec"] {
			k = tree
		}
		a.use(k, Literal(s.none, a.At))
	}
	n := len(list) + shift
	for i, f := range list {
		k := s.kindAt(i+shift, n)
		if k == argv || k == env {
			if s.operands[0] == env && (f.Is("-") && i == 0 || f.Known && strings.Contains(before(f.Text, "/"), "=")) {
				a.use(env, f)
				continue
			}
			if s.operands[0] == env && !f.Known && strings.Contains(before(f.Skeleton, "/"), "=") {
				a.use(env, f)
				if f.Many || !assigns(f) { // it may hold the program as well, or name any variable
					a.Start(list[i:])
				}
				continue
			}
			words := list[i:]
			if !Placed(list, i) {
				// A pattern may stand for several words, or none: any may be the program.
				words = slices.Clone(words)
				words[0].Known = false
			}
			a.Start(words)
			return
		}
		switch {
		case a.Effects["target"] && (k == writes || k == changes) && len(s.operands) > 1 && s.operands[0] != k:
			k = s.operands[0]
		case a.Effects["inplace"] && k == reads:
			k = both
		case a.Effects["data"]:
			k = data
		}
		if k == data && f.Known && looksLikePath(f.Text) && slices.Contains(a.loose, f.At) {
			k = maybe
		}
		if a.Effects["rec"] || s.rec {
			switch k {
			case reads:
				k = tree
			case writes, changes, both:
				k = cuts
			}
		}
		a.use(k, f)
	}
	if a.Effects["rec"] && s.none == "" && len(list)+shift == 1 && s.operands[0] == data && len(s.operands) > 1 {
		a.use(tree, Literal(".", a.At)) // grep -r PATTERN
	}
}

// assigns reports whether a word whose value is not known has the name of a variable in front
// that is.
func assigns(f Word) bool {
	name, _, ok := strings.Cut(strings.TrimLeft(f.Text, `"'`), "=")
	return ok && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// looksLikePath reports whether a word can hardly be anything but a path.
func looksLikePath(text string) bool {
	return len(text) > 1 && (text[0] == '/' || strings.HasPrefix(text, "~/") || strings.HasPrefix(text, "./") ||
		strings.HasPrefix(text, "../"))
}

// chdir is a directory that the rest of the command works in.
func (a *Call) chdir(f Word) {
	a.File(f, Read, false)
	a.Chdir(f)
}

// Access says what a command does with a file.
type Access string

// The two accesses.
const (
	Read  Access = "read"
	Write Access = "write"
)
