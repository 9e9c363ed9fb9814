// Package effect knows what commands lose, publish or change elsewhere.
//
// A [program.Call] goes in, after [program.Call.Analyse] has read its words; [Effects] come out:
// what it deletes, replaces or unpacks, what of a git repository it throws away, what it does to
// a service, a registry or this machine, what it feeds to a database, and code in its words or its
// input that does harm.
//
//	does := effect.Of(&call, nil) // call: aws s3 rm s3://backups; nil: no word is from outside
//	// does.Acts: aws, s3 rm, s3://backups, destroys
//	effect.Statements("DROP TABLE users", "psql") // what the SQL of a file does, for a client
//
// [Maker] says what the output of a program is: decoded, downloaded, or text that it composed.
// [Queries] says whether its input is statements, [Knows] whether it has an entry.
//
// Most of the knowledge is text in tables/: tables/README.md explains the tables of programs, and
// git.txt and makers.txt explain themselves. What a table cannot say is a function that the entry
// names with do (git, delete, sql, …). A new program belongs in a table; one with do delete also
// gets a case in deletes (files.go). A new do is a case in read, a name in TestTheTablesAreRead and a
// row of tables/README.md. A program without an entry has no effects here: nil says that
// none is known, not that there is none.
//
// Guaranteed: a verb, a method, or an option of git that is only known when it runs is taken for the
// one that does harm, unless the second argument of Of says that variables from outside of the line
// make it. An unknown word never counts as an option of another program, and never matches a word that
// a table marks with =. Nothing here judges: that is package policy.
package effect

import (
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// Effects are what one command loses, publishes or changes elsewhere.
type Effects struct {
	Deletes  []Delete
	Replaces []Replace
	Discards []Discard
	Acts     []Act
	Code     []Code
	Feeds    []Feed
	Unpacks  []Unpack
}

// Delete is one operand of a command that removes or empties files.
type Delete struct {
	Word   program.Word
	Tree   bool     // with all below it
	Many   bool     // a pattern, a list, what a search finds, or more than one word can be
	Names  []string // only files whose name matches one of these patterns; none: all
	Moved  bool     // it has another name afterwards, To
	To     program.Word
	Copied bool // its content is in another place afterwards
}

// Discard is what git throws away.
type Discard struct {
	What string // one of the constants
	// IfThere: only if this names a file; it may be a branch as well.
	IfThere *program.Word
	// Mixed: the first of Only may be a commit as well, if no file has that name.
	Mixed bool
	// Only: nothing else than these files and trees gets the content that the index has.
	Only []program.Word
}

// What git can throw away.
const (
	Work       = "work"        // changes of tracked files that are in no commit
	Untracked  = "untracked"   // files that git does not know
	Refs       = "refs"        // branches or tags: their commits are found by the reflog at best
	RemoteRefs = "remote_refs" // branches or tags of the remote
	Stash      = "stash"       // stashes
	Reflog     = "reflog"      // what makes lost commits findable
	History    = "history"     // all commits are replaced
)

// Act is what a command does to a service, a registry or this machine.
type Act struct {
	Program string `json:"program"`
	Verb    string `json:"verb"`   // the words that say what is done: s3 rm
	Target  string `json:"target"` // the word behind them, ""; source text where it is not known
	Does    string `json:"does"`   // destroys, changes, publishes or plants
}

// What an act does.
const (
	Destroys  = "destroys"
	Changes   = "changes"
	Publishes = "publishes"
	Plants    = "plants"
)

// Code is code of another language in the words or the input of a command.
type Code struct {
	Does string // what a part of it does: deletes, starts programs, hides what it does
	Part string // that part
}

// Knows reports whether a table has a program of this name.
func Knows(name string) bool { return find(name) != nil }

// Of returns what a command does, nil for nothing that is known. outside reports whether a word that is not known
// depends on nothing but variables from outside of the line.
func Of(c *program.Call, outside func(program.Word) bool) *Effects {
	t := find(c.Name)
	if t == nil {
		return nil
	}
	r := &reader{Call: c, tool: t, outside: outside}
	r.read()
	o := &r.out
	if len(o.Deletes)+len(o.Replaces)+len(o.Discards)+len(o.Acts)+len(o.Code)+len(o.Feeds)+len(o.Unpacks) == 0 {
		return nil
	}
	return o
}

// reader reads one command.
type reader struct {
	*program.Call
	out     Effects
	tool    *tool
	outside func(program.Word) bool
	depth   int // programs that run programs: python -m
}

func (r *reader) read() {
	for _, do := range r.tool.do {
		what, of, _ := strings.Cut(do, " ")
		switch what {
		case "git":
			if r.Sub == "apply" || r.Sub == "am" {
				r.patched()
			}
			if !r.git() {
				return
			}
		case "delete":
			r.deletes()
		case "sql":
			r.sql()
		case "store":
			r.store()
		case "code":
			r.code(of)
		case "http":
			r.http()
		case "input":
			r.commands()
		case "console":
			r.console(of)
		case "jar":
			r.jar()
		}
	}
	if len(r.tool.lines) > 0 || r.tool.other != "" {
		r.verbs()
	}
}

// inside adds what a command does that this one names in its words.
func (r *reader) inside(name string, argv []program.Word) {
	if r.depth > 2 || name == "" {
		return
	}
	if t := find(name); t != nil {
		inner := *r.Call
		inner.Name, inner.Argv, inner.Operands, inner.Values, inner.Effects = name, argv, nil, nil, nil
		inner.Listed, inner.Options = false, nil
		in := reader{Call: &inner, tool: t, outside: r.outside, depth: r.depth + 1}
		in.read()
		r.out.Deletes = append(r.out.Deletes, in.out.Deletes...)
		r.out.Replaces = append(r.out.Replaces, in.out.Replaces...)
		r.out.Discards = append(r.out.Discards, in.out.Discards...)
		r.out.Acts = append(r.out.Acts, in.out.Acts...)
		r.out.Code = append(r.out.Code, in.out.Code...)
		r.out.Feeds = append(r.out.Feeds, in.out.Feeds...)
		r.out.Unpacks = append(r.out.Unpacks, in.out.Unpacks...)
	}
}

// unsure reports whether a word may be anything: it is not known, and not because of a variable
// from outside.
func (r *reader) unsure(w program.Word) bool {
	return !w.Known && (r.outside == nil || !r.outside(w))
}

// input returns what is known of the standard input.
func (r *reader) input() string {
	if r.In.Printed != "" {
		return r.In.Printed
	}
	return r.In.Text
}

func (r *reader) act(does, verb string, target program.Word) {
	r.out.Acts = append(r.out.Acts, Act{Program: r.Name, Verb: verb, Target: target.Text, Does: does})
}

func base(text string) string { return text[strings.LastIndexByte(text, '/')+1:] }
