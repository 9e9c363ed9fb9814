// Package shellparse lists what a shell program may do.
//
// Text (or an argument vector) goes in; a [Script] comes out: every program that
// the text can start, with its words as the shell would resolve them, how it is
// reached, the files and hosts it names, and the parts that nobody can know
// without running it.
//
//	s, err := shellparse.Parse("git push | tee log", shellparse.Options{Dir: "/src"})
//	// s.Commands: git push, tee log (which writes /src/log)
//
// Parse never runs or expands anything against the system. A word that it
// cannot prove is marked unknown; a part that it cannot read is Opaque; text
// that it refuses (too large, control characters, a construct that bash and the
// parser read differently) is an [*Error]. Callers deny all three unless a person
// decides otherwise.
//
// It does not judge: that is package sandbox for paths and names, and package
// policy for meaning.
package shellparse

// Options is what the shell will be given; the guard has to know the same.
type Options struct {
	Dir  string            // absolute working directory; "" if unknown
	Home string            // absolute home directory, for ~ and $HOME; "" if unknown
	Env  map[string]string // variables known to be set; all others are unknown
}

// Pos is a half-open byte range in the text, with the place of its first byte. A
// script has many: they are small.
type Pos struct {
	Offset int32 `json:"offset"` // 0-based byte offset of the first byte
	End    int32 `json:"end"`    // byte offset after the last byte
	Line   int32 `json:"line"`   // 1-based
	Col    int32 `json:"col"`    // 1-based, in bytes
}

// Script is everything that one text can do.
type Script struct {
	Commands []Command `json:"commands"`         // in source order, inner ones included
	Files    []File    `json:"files,omitempty"`  // redirections that belong to no single command ("{ …; } > log")
	Opaque   []Opaque  `json:"opaque,omitempty"` //
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
	Name  string   `json:"name"`            // last path segment of the program ("rm"); "" when unknown
	Path  string   `json:"path,omitempty"`  // the program as written and resolved ("/usr/bin/rm")
	Args  []Word   `json:"args,omitempty"`  // the words after the name
	Via   []string `json:"via,omitempty"`   // how it is reached, outermost first: "pipeline", "substitution", "xargs", "bash -c"
	Env   []Assign `json:"env,omitempty"`   // assignments in front of it, wrappers' included
	Dir   string   `json:"dir,omitempty"`   // tracked working directory; "" if unknown
	Files []File   `json:"files,omitempty"` // operands and redirections that name files
	Hosts []string `json:"hosts,omitempty"` // hosts its words name
	At    Pos      `json:"at"`
	// Script: a shell reads this as a script file, which only could be a program
	// found in PATH; a list of allowed programs speaks of the shell.
	Script bool `json:"script,omitempty"`
}

// Assign is NAME=VALUE in front of a command.
type Assign struct {
	Name  string `json:"name"`
	Value Word   `json:"value"`
}

// Access says what a command does with a file.
type Access string

// The two accesses.
const (
	Read  Access = "read"
	Write Access = "write"
)

// File is one word that names a file.
type File struct {
	Path      string `json:"path"`           // as resolved, made absolute with the tracked directory where that is known; not cleaned
	Known     bool   `json:"known"`          // false: the path depends on something outside the text
	Access    Access `json:"access"`         //
	Recursive bool   `json:"recursive"`      // the whole tree below it is touched, or moved
	At        Pos    `json:"at"`             //
	Glob      bool   `json:"glob,omitempty"` // holds pattern characters that the shell expands; literal ones are escaped by \
	// OnlyIfMissing is a directory: this use happens only if a cd to it fails.
	OnlyIfMissing string `json:"-"`
}

// Opaque is code or data that decides what runs, and that cannot be read here.
type Opaque struct {
	Code    string `json:"code"` // stable: "inline_code", "unknown_command", "dynamic_eval", …
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Command string `json:"command,omitempty"` // the program that would interpret it
	At      Pos    `json:"at"`
	Inline  bool   `json:"inline,omitempty"` // code in the line itself: a person can read it and decide
	// CommandsOnly: it decides which programs run and touches nothing that path
	// rules speak of (a variable that makes a program load other code).
	CommandsOnly bool `json:"-"`
}

// Error is text that is refused before or while it is parsed.
type Error struct {
	Code string // stable: "too_large", "control_character", "invalid_utf8", "too_deep", "syntax", "unsupported", "parser_difference", "internal"
	Msg  string
	Hint string
	At   Pos
}

func (e *Error) Error() string { return e.Msg }
