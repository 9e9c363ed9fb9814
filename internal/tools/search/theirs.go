package search

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
)

// searched returns the places that a search by another program reads: the whole tree below root, without any filter,
// and the paths that its pattern names. Some programs follow a pattern that leads out of root, so the fixed
// beginning of the pattern counts as another root.
func searched(in tool.In, root, pattern string) (guard.Uses, error) {
	base, err := toolkit.Path(in, cmp.Or(root, "."), guard.Read)
	if err != nil {
		return guard.Uses{}, err
	}
	base.Recursive = true
	uses := guard.Uses{Paths: []guard.PathUse{base}}
	fixed, rest := fixedPart(pattern)
	if mayLeave(rest) || fixed == "" && mayBegin(rest) {
		return uses, &tool.Error{
			Code: "invalid_pattern", Stage: "judge",
			Msg:  fmt.Sprintf("pattern %q may lead out of the directory that is searched", pattern),
			Hint: "name that directory in path, and leave .. out of the pattern",
		}
	}
	in.Dir = base.Path
	for _, name := range []string{fixed, pattern[strings.LastIndexByte(pattern, '/')+1:]} {
		if name == "" || strings.ContainsAny(name, magic) {
			continue
		}
		u, err := toolkit.Path(in, name, guard.Read)
		if err != nil {
			return uses, err
		}
		u.Recursive = true
		uses.Paths = append(uses.Paths, u)
	}
	return uses, nil
}

// magic holds the characters that are special in the patterns of any of these programs.
const magic = `*?[]{}()|\!`

// fixedPart splits a pattern after the directory that it names without special characters.
func fixedPart(pattern string) (fixed, rest string) {
	i := strings.IndexAny(pattern, magic)
	if i < 0 {
		return pattern, ""
	}
	at := strings.LastIndexByte(pattern[:i], '/') + 1
	return pattern[:at], pattern[at:]
}

// mayBegin reports whether a pattern, one of its alternatives or its quoted text may begin at the root of the file
// system. Some programs read {/root/.ssh,x}/* as two patterns, and the first has a directory of its own.
func mayBegin(pattern string) bool {
	plain := strings.NewReplacer(`\`, "", "[", "", "]", "").Replace(pattern)
	if strings.HasPrefix(plain, "/") {
		return true
	}
	if !strings.HasPrefix(plain, "{") {
		return false
	}
	for _, slash := range []string{"{/", ",/"} {
		if strings.Contains(plain, slash) {
			return true
		}
	}
	// If an alternative is empty, the path begins with the text behind the braces.
	empty := strings.Contains(plain, "{,") || strings.Contains(plain, ",,") || strings.Contains(plain, ",}")
	return empty && strings.Contains(plain, "}/")
}

// mayLeave reports whether a pattern may name "..", also by its alternatives or quotes: .{.,x}/ and [.][.]/ do.
func mayLeave(pattern string) bool {
	plain := strings.NewReplacer(`\`, "", "[", "", "]", "").Replace(pattern)
	dots := 0
	for _, piece := range strings.FieldsFunc(plain, func(r rune) bool { return strings.ContainsRune("/{},()|", r) }) {
		switch piece {
		case "..":
			return true
		case ".":
			dots++
		}
	}
	return dots > 1 && strings.Contains(plain, "{")
}
