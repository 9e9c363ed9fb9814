package projects

import (
	"fmt"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// allow returns the command that allows a directory.
func allow(dir string) string { return tool.CommandLine("sandboxd", "allow", dir) }

func takeBack(dir string) string { return tool.CommandLine("sandboxd", "allow", "--remove", dir) }

func notAllowed(dir string) error {
	return &tool.Error{
		Code: "cwd_outside_workspace", Msg: fmt.Sprintf("%s is in no directory that a person allowed", dir),
		Hint: "a person allows it with: " + allow(dir),
	}
}

// codeGone is the code of a project that is not where it was.
const codeGone = "project_gone"

func gone(dir, how string) error {
	return &tool.Error{
		Code: codeGone, Msg: fmt.Sprintf("the project %s %s", dir, how),
		Hint: "take it back with: " + takeBack(dir) + "; where it is now, allow it with: sandboxd allow DIR",
	}
}

func unusable(dir string, why error) error {
	return &tool.Error{
		Code: "project_refused", Msg: fmt.Sprintf("the project %s cannot be used: %v", dir, why),
		Hint: "take it back: " + takeBack(dir) + "; or change the configuration that keeps it from being one",
	}
}

func refused(msg, hint string) error {
	return &tool.Error{Code: "project_refused", Msg: msg, Hint: hint}
}

func (s *state) notListed(dir string) error {
	e := &tool.Error{
		Code: "project_not_found", Msg: fmt.Sprintf("%s was not allowed by itself", dir),
		Hint: "sandboxd allow --list shows what was",
	}
	if root, ok := innermost(dir, s.rules.Base.Roots); ok {
		e.Hint = fmt.Sprintf("workspace.roots of the configuration has %s", root)
	} else if p, ok := s.of(dir); ok {
		e.Hint = "it lies in another one: " + takeBack(p.Dir)
	}
	return e
}
