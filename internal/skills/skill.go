// Package skills finds skill packages, and lets an agent begin and end them. A skill is a prompt with
// a list of the tools that may be called until it ends. Nothing of a package is executed.
//
// A skill package is a directory with a SKILL.md: front matter, then the prompt. Skills have three
// authors, see [Source]: this program (builtin.go), the user, and whoever can write the workspace.
// Packages below a directory that sessions can write count only if [Places].Workspace is set. A
// [Library] returns the skills of a session as a [Set]. Of two skills with one name the later one
// counts: the built-in ones come first, those of the directory of the session last.
//
//	var library skills.Library
//	set := library.Of(dir, skills.Places{Home: "/home/me", User: sandbox.Daemon()})
//	k, found := set.Find("tidy") // by name or alias
//
// The tool Skill pushes a skill onto the stack of the session ([tool.Session]). While it is there,
// the request path refuses tools that the skill does not list, save Skill itself. A skill without
// the key allowed-tools refuses none, one whose list is empty refuses all. Of skills within each
// other the innermost that has a list decides. The lists around it count too if it comes from the
// workspace, or with [Config].StrictNesting. A route ends the innermost skill. A skill grants nothing:
// policies and settings judge each call as before.
//
// A SKILL.md that cannot be accepted (too large, no front matter, a link that leaves the workspace)
// is no skill, and [Set].Ignored says why. A directory without a SKILL.md, or whose SKILL.md is a
// link to nothing, is skipped.
//
// Files are read with bounds, never executed. Supporting files are listed, not read. A package of
// the user, or its SKILL.md, may be a link, but not into a directory that sessions can write.
//
// A call of Skill that fails begins no skill; the codes of its errors, such as skill_not_found and
// skill_too_deep, are in tool.go and part.go. The route that ends a skill does nothing if none runs.
//
// A new built-in skill is an element of builtins (builtin.go). A new field of a skill is read from its
// front matter in skill.go and kept in [Skill]; what it restricts is decided in package tool
// (Session.Lets), so that every stage sees the same. What a package may not hold is found, for its
// author, by package check.
package skills

import (
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Source says who wrote a skill.
type Source string

// The sources.
const (
	Builtin   Source = "builtin"
	User      Source = "user"
	Workspace Source = "workspace" // everyone who can write the repository, also the model
)

// origin returns the author of a skill's text as policies see it.
func (s Source) origin() tool.Origin {
	switch s {
	case Builtin:
		return tool.OriginRule
	case User:
		return tool.OriginPerson
	}
	return tool.OriginRepository
}

// skill returns the words for a skill of this source.
func (s Source) skill() string {
	if s == Builtin {
		return "the built-in skill"
	}
	return "the user's skill"
}

// Skill is what the front matter of a skill says, and where its files are.
type Skill struct {
	Name             string   `json:"name"`
	Description      string   `json:"description"`
	Aliases          []string `json:"aliases"`
	UserInvocable    bool     `json:"user_invocable"`
	ToolRestrictions []string `json:"tool_restrictions"` // null: every tool
	Model            *string  `json:"model"`
	Available        bool     `json:"available"` // can be used in this session
	Prompt           *string  `json:"prompt,omitempty"`
	WhenToUse        *string  `json:"when_to_use"`
	ArgumentHint     *string  `json:"argument_hint"`
	BaseDir          *string  `json:"base_dir"`
	SupportingFiles  []string `json:"supporting_files"`
	Source           Source   `json:"source"`
	Diagnostics      []string `json:"diagnostics"`
	Replaces         Source   `json:"replaces,omitempty"` // source of the skill whose name it takes

	place  place // nil for a built-in skill
	linked bool  // its SKILL.md is a link
	text   string
}

// restrict reads the entries of allowed-tools. An unknown name stays in the list, where it matches no tool. It never
// makes the list mean every tool.
func restrict(entries []string) (list, diagnostics []string) {
	list = []string{}
	for _, entry := range entries {
		name, spec, only := strings.Cut(entry, "(")
		i := slices.IndexFunc(tool.SkillNames, func(r string) bool { return strings.EqualFold(r, name) })
		switch {
		case only && !(i == 0 && strings.HasSuffix(spec, ")")):
			diagnostics = append(diagnostics, "allowed-tools: "+entry+" lets nothing be called: only commands "+
				"of Bash can be listed, as in Bash(git diff:*)")
		case i < 0 && !strings.HasPrefix(name, "mcp__"):
			diagnostics = append(diagnostics, "allowed-tools: "+entry+" is no tool that is known here")
		case i >= 0 && !only:
			entry = tool.SkillNames[i]
		}
		list = append(list, entry)
	}
	if len(list) == 0 {
		diagnostics = append(diagnostics, "allowed-tools is empty: nothing but Skill can be called while it runs")
	}
	return slices.Compact(list), diagnostics
}

// restrictsSkill reports whether a skill lists the tool Skill, which no skill can restrict.
func (k Skill) restrictsSkill() bool {
	return slices.ContainsFunc(k.ToolRestrictions, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "(")
		return strings.EqualFold(name, tool.SkillTool)
	})
}

func opt(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func val(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
