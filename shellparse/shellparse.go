// Package shellparse lists what a shell program may do.
//
// Text goes into [Parse], or an argument vector into [Argv]; a [Script] comes out. It has every
// program that the text can start: its words as the shell would resolve them, how it is reached,
// and the files and hosts that it names. It also has the parts that nobody can know without running
// the text.
//
//	s, err := shellparse.Parse("git push | tee log", shellparse.Options{Dir: "/src"})
//	// s.Commands: git push, tee log (which writes /src/log)
//
// [Options] has what the shell will know: its directory, home and variables. Parse never runs or
// expands anything against the system, and reads no file. What a script file runs is not in the
// list, only the file ([Command.Code]), unless the text itself writes that file. [Command.Obeys]
// returns what a program executes although no word names it. What Parse cannot tell, it says:
//
//   - a word that it cannot prove is marked unknown (Known is false);
//   - a part that it cannot read is [Opaque];
//   - text that it refuses is an [*Error], such as text that is too large or breaks off, control
//     characters, and a construct that bash and the parser read differently.
//
// Every error is an Error, and comes without a Script. Callers refuse it. They refuse, or ask a person about, an
// Opaque part and an unknown word that names a program or a file. Parse and Argv are safe for concurrent use.
//
// It follows the statements and knows what words become and what a shell does by itself.
// Package program knows what programs do with their words. Package effect knows what they destroy or
// publish. Package source makes a syntax tree of text, and knows where bash and the parser differ.
// None of them judges: that is package guard for paths and names, and package policy for meaning.
//
// A builtin of the shell is an entry of program/tables/programs/shell.txt. If the shell itself has to
// follow it, add a case in shellHandler (act.go) and a function: in do_shell.go if it runs other text, in cd.go if it
// changes the directory, else in do_builtin.go. A kind of statement belongs in walk.go, what a word becomes in
// expand.go and param.go, and text that bash and the parser read differently in package source.
//
// The next case of a test goes into one of these: a line that must be denied or allowed into guard/testdata, which the
// tests here read too; what a line destroys or publishes into testdata/effects.txt; the rest into the tables of
// TestParse, TestFiles and TestWhatAHandlerFinds.
package shellparse

import (
	"github.com/sandboxd/sandboxd/shellparse/program"
	"github.com/sandboxd/sandboxd/shellparse/source"
)

// Options describes the shell that will run the text. The guard has to know the same.
type Options struct {
	Dir  string            // absolute working directory; "" if unknown
	Home string            // absolute home directory, for ~ and $HOME; "" if unknown
	Env  map[string]string // variables with known values; all others are unknown

	// Typed says that somebody may type into the programs that the text starts, so that their standard input is
	// unknown.
	Typed bool

	in program.Input // standard input of text that runs elsewhere
}

// stdin returns the standard input of the shell.
func (o Options) stdin() program.Input {
	if o.Typed {
		return program.Input{Kind: program.Piped, Typed: true}
	}
	return o.in
}

// Script is everything that a text can do.
type Script struct {
	Commands []Command `json:"commands"`        // in source order, inner ones included
	Files    []File    `json:"files,omitempty"` // redirections that belong to no single command ("{ …; } > log")
	Opaque   []Opaque  `json:"opaque,omitempty"`
}

// Word is one argument after quoting and expansion.
type Word struct {
	Text  string `json:"text"`  // resolved text; the source text when not Known
	Known bool   `json:"known"` // false: the value depends on something outside the text
	At    Pos    `json:"at"`
}

// Command is one program start, or one call of a shell builtin. Keywords and
// functions of the text are not commands; what they run is.
type Command struct {
	Name string `json:"name"`           // last path segment of the program ("rm"); "" when unknown
	Path string `json:"path,omitempty"` // the program as written and resolved ("/usr/bin/rm")
	Args []Word `json:"args,omitempty"` // the words after the name
	// Via says how it is reached, outermost first: "pipeline", "substitution", "xargs", "bash -c".
	Via   []string `json:"via,omitempty"`
	Env   []Assign `json:"env,omitempty"`   // assignments before it, those of wrappers included
	Dir   string   `json:"dir,omitempty"`   // tracked working directory; "" if unknown
	Files []File   `json:"files,omitempty"` // operands and redirections that name files
	Hosts []string `json:"hosts,omitempty"` // hosts that its words name
	At    Pos      `json:"at"`
	// Fed is the text of the redirections whose substitutions the command may read: its own, those of the lists,
	// loops and functions around it, and those of exec. It is zero if there are none.
	Fed Pos `json:"-"`
	// Script says that a shell reads this as a script file. Only that could be a program found in PATH; a list of
	// allowed programs is about the shell.
	Script bool `json:"script,omitempty"`
	// Code are the files that it executes, as far as its words name them. Files has them too. [Command.Obeys]
	// returns those that it looks for without being told.
	Code []File `json:"-"`
	// Builtin says that the shell itself does it, unless the script switches that off with enable.
	Builtin bool `json:"-"`
	listed  bool // what Listed says, where that is known by now
	// fedText says that its input is a text of the line, and relays that it passes such a text on.
	fedText, relays bool
	called          []Pos  // the calls of the functions that it is in
	source          string // of a text that it has for input, where that is not wholly known
	gives           string // the origin of what it writes, where its words and files give one: as Makers says it
	Told            bool   `json:"-"` // an option names a file of Code in place of the one that the program looks for
	Sub             string `json:"-"` // the subcommand, if the program has any
	// Effects are what it would lose, publish or change elsewhere. nil: nothing known.
	Effects *Effects `json:"effects,omitempty"`
}

// Obeys returns what the program executes although no word names it. known is false if no table has the program.
func (c *Command) Obeys() (o program.Obeys, known bool) { return program.LooksFor(c.Name, c.Sub) }

// Listed reports whether a table has the program. It costs less than Obeys.
func (c *Command) Listed() bool { return c.listed || program.Knows(c.Name, c.Sub) }

// Assign is NAME=VALUE before a command.
type Assign struct {
	Name  string `json:"name"`
	Value Word   `json:"value"`
}

// Access says what a command does with a file.
type Access = program.Access

// The two accesses.
const (
	Read  = program.Read
	Write = program.Write
)

// File is one word that names a file.
type File struct {
	// Path is the resolved path. It is absolute if the directory is known. It is not cleaned.
	Path      string         `json:"path"`
	Known     bool           `json:"known"`     // false: the path depends on something outside the text
	Access    program.Access `json:"access"`    // what the command does with it
	Recursive bool           `json:"recursive"` // the whole tree below it is touched, or moved
	At        Pos            `json:"at"`        // the place of the word
	// Glob says that it holds pattern characters, which the shell expands. Before literal ones stands \.
	Glob bool `json:"glob,omitempty"`
	// Guess says that the word only looks like a path, and the program is unknown.
	Guess bool `json:"-"`
	// Looks says that it is a test or a listing, which reads nothing of the content.
	Looks bool `json:"-"`
	// Keeps says that the old content of a written file stays in it.
	Keeps bool `json:"-"`
	// Makes says that the command makes a directory if there is none, and takes over an empty one.
	Makes bool `json:"-"`
	// First says that the file is emptied before the command reads anything.
	First bool `json:"-"`
	// OnlyIfMissing is a directory: this use happens only if a cd to it fails.
	OnlyIfMissing string `json:"-"`
}

// Opaque is code that decides what runs and that cannot be read here, or data that does so.
type Opaque struct {
	Code    string `json:"code"` // stable: "inline_code", "unknown_command", "dynamic_eval", …
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Command string `json:"command,omitempty"` // the program that would interpret it
	At      Pos    `json:"at"`
	Inline  bool   `json:"inline,omitempty"` // code in the line itself: a person can read it and decide
	// CommandsOnly: it decides which programs run, and path rules say nothing about it (a variable
	// that makes a program load other code).
	CommandsOnly bool `json:"-"`
	Words        bool `json:"-"` // the code is the words themselves (python -c), so nobody can change it
	Typed        bool `json:"-"` // the code is what somebody may type, see Options
}

// Pos is a place in the text.
type Pos = source.Pos

// Error is text that is refused before or while it is read.
type Error = source.Error
