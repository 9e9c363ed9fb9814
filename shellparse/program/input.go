package program

import "github.com/sandboxd/sandboxd/shellparse/source"

// Input is what a command reads as its standard input.
type Input struct {
	Kind InputKind
	Text string // of a here-document; of what is piped what is known of it, _ for the rest
	At   source.Pos
	// Source is the source of a text that is not wholly known, else "".
	Source string
	// Printed is what a command in front of a pipe prints, where its words say it; no escapes
	// are read in it.
	Printed string
	// Output is what it prints in fact, "" where that is not known.
	Output string
	// Composed: a command in front of the pipe makes a text of its words.
	Composed bool
	// Files are those that it is made of, one after the other.
	Files []Word
	// Archive: git archive makes it.
	Archive bool
	Typed   bool // somebody may type it
	Own     bool // of this command alone, which sees it from its beginning
	// Paths are the roots below which every line of the input names a file.
	Paths []Word
}

// passesOn are programs that print what they read, or make something of it.
var passesOn = set(
	"cat", "tee", "sponge", "pv", "dd", "sed", "gsed", "awk", "gawk", "mawk", "grep", "egrep", "fgrep", "rg", "tr",
	"head", "tail", "sort", "uniq", "cut", "rev", "tac", "base64", "gunzip", "zcat", "jq", "envsubst", "read",
)

// PassesOn reports whether a program of this name prints what it reads.
func PassesOn(name string) bool { return passesOn[name] }

// stdin names the standard input of the command. Where somebody may type it, a message is another one: that is how
// [Opaque.Typed] of package shellparse is found.
func (a *Call) stdin() string {
	if a.In.Typed {
		return "what is typed into it"
	}
	return "its standard input"
}

// stdinWords are words that the standard input names.
func (a *Call) stdinWords() Word {
	text := "(words from standard input)"
	if a.In.Typed {
		text = "(words that are typed)"
	}
	return Word{Text: text, Many: true, At: a.At}
}

// InputKind says where an input comes from.
type InputKind int

const (
	Inherited InputKind = iota
	Piped               // output of another command, or a descriptor
	FromFile            // a file
	HereText            // known text
)
