package source

import (
	"reflect"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// bashOnly are builtins and keywords that sh does not have.
var bashOnly = []string{
	"declare", "typeset", "let", "mapfile", "readarray", "shopt", "builtin", "source", "enable", "compgen",
	"complete", "compopt", "pushd", "popd", "dirs", "disown", "caller", "bind", "coproc", "function", "select",
	"[[", "time", "help", "history", "logout", "suspend",
}

// bashOptions begin what sh has too, but with other options or at other times.
var bashOptions = []string{"~+", "~-", "eval", "alias", "printf", "cd -", "read -"}

// BashBuiltin reports whether a name is a builtin or a keyword that sh does not have.
func BashBuiltin(name string) bool { return slices.Contains(bashOnly, name) }

var posixParsers = parsersOf(syntax.LangPOSIX)

// apart puts a blank into each &> that bash reads as one operator: to other shells it is
// a command in the background and a redirection of the next one.
func apart(src string) string {
	if !strings.Contains(src, "&>") {
		return src
	}
	file, err := parseFile(src)
	if err != nil {
		return strings.ReplaceAll(src, "&>", "& >")
	}
	out := []byte(src)
	var places []int
	syntax.Walk(file, func(n syntax.Node) bool {
		if r, ok := n.(*syntax.Redirect); ok && (r.Op == syntax.RdrAll || r.Op == syntax.AppAll) {
			places = append(places, int(r.OpPos.Offset())+1)
		}
		return true
	})
	slices.Sort(places)
	for _, at := range slices.Backward(places) {
		out = slices.Insert(out, at, ' ')
	}
	return string(out)
}

// OnlyBash reports whether a shell that is not bash may do something else with text.
func OnlyBash(src string) bool {
	if strings.ContainsAny(src, "{=") || strings.Contains(src, "&>") {
		return true // lists in braces, assignments that stay
	}
	for _, word := range slices.Concat(bashOnly, bashOptions) {
		if strings.Contains(src, word) {
			return true
		}
	}
	ours, err := parseFile(src)
	if err != nil {
		return true
	}
	theirs, err := parseWith(&posixParsers, src)
	return err != nil || !alike(reflect.ValueOf(ours.Stmts), reflect.ValueOf(theirs.Stmts))
}

// ParsePosix returns the tree of src as a shell reads it that knows nothing of bash's own, and the text that its
// places belong to.
func ParsePosix(src string) (file *syntax.File, read string, err error) {
	read = apart(src)
	file, err = parseWith(&posixParsers, read)
	return file, read, err
}
