package program

import "github.com/sandboxd/sandboxd/shellparse/source"

// Input is what a command reads as its standard input.
type Input struct {
	Kind InputKind
	Text string // of a here-document; of what is piped what is known of it, _ for the rest
	At   source.Pos
	// Printed is what a command in front of a pipe prints, where its words say it; no escapes
	// are read in it.
	Printed string
	// Output is what it prints in fact, "" where that is not known.
	Output string
	// Files are those that it is made of, one after the other.
	Files []Word
	// Archive: git archive makes it.
	Archive bool
	Own     bool // of this command alone, which sees it from its beginning
	// Paths are the roots below which every line of the input names a file.
	Paths []Word
}

// InputKind says where an input comes from.
type InputKind int

const (
	Inherited InputKind = iota
	Piped               // output of another command, or a descriptor
	FromFile            // a file
	HereText            // known text
)
