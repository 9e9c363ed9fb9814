package tool

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/shellparse"
)

// SkillTool is the tool that begins skills. A skill never takes it away, or none could begin
// within another.
const SkillTool = "Skill"

// Skill is a skill that runs in a session. The last one of a session counts.
type Skill struct {
	Name  string   `json:"name"`
	Tools []string `json:"tools"` // that it lets be called; nil: what is around it decides
	// Within: only what the skills around it let be called, too.
	Within bool   `json:"within,omitempty"`
	Model  string `json:"model,omitempty"`
	Call   string `json:"call,omitempty"` // that began it
}

// SkillNames are the names that a skill uses for tools (K-15).
var SkillNames = []string{
	"bash", "read", "write", "edit", "glob", "grep", "webFetch", "webSearch", "askUser", "toolSearch",
	"agent", "sendMessage", "taskCreate", "taskList", "taskUpdate", "taskGet", "taskStop", "taskOutput",
	"teamCreate", "teamDelete", "notebookEdit", "skill",
}

// NamedBySkills reports whether skills mean a tool by a name, in any case.
func NamedBySkills(name string) bool {
	is := func(known string) bool { return strings.EqualFold(known, name) }
	for _, others := range toolsOfSkillName {
		if slices.ContainsFunc(others, is) {
			return true
		}
	}
	return slices.ContainsFunc(SkillNames, is)
}

// toolsOfSkillName are tools whose name in skills is another one, by that name in lower case.
var toolsOfSkillName = map[string][]string{
	"agent":   {"Agent", "Task"},
	"askuser": {"AskUserQuestion"},
}

// names reports whether an entry of a skill speaks of a tool, whatever it says of its calls.
func (s Skill) names(entry, tool string) bool {
	name, _, _ := strings.Cut(entry, "(")
	return strings.EqualFold(name, tool) || slices.Contains(toolsOfSkillName[strings.ToLower(name)], tool)
}

// skills calls ask with the skills whose lists count, the innermost first, until it fails.
func (s Session) skills(ask func(Skill) bool) bool {
	for _, k := range slices.Backward(s.Skills) {
		if k.Tools != nil && !ask(k) {
			return false
		}
		if k.Tools != nil && !k.Within {
			return true
		}
	}
	return true
}

// Lets reports whether the skills that run in the session, and above it, let a tool be called at all.
func (s Session) Lets(tool string) bool { return s.lets(tool, nil) == nil }

// LetsUse reports whether they let this call be made: an entry may list commands alone.
func (s Session) LetsUse(tool string, uses guard.Uses) bool { return s.lets(tool, &uses) == nil }

// lets returns the session whose skills do not let a tool be called, or a call of it be made; nil: none.
func (s Session) lets(tool string, uses *guard.Uses) *Session {
	if tool == SkillTool {
		return nil
	}
	let := func(k Skill) bool {
		return slices.ContainsFunc(k.Tools, func(entry string) bool {
			return k.names(entry, tool) && (uses == nil || whole(entry))
		}) || uses != nil && everyCommand(k, tool, *uses)
	}
	if !s.skills(let) {
		return &s
	}
	for i := range s.Above {
		if !s.Above[i].skills(let) {
			return &s.Above[i]
		}
	}
	return nil
}

// SkillRestricted returns the error of a call that the skills of a session do not let be made.
func (s Session) SkillRestricted(tool string, uses *guard.Uses) *Error {
	if at := s.lets(tool, uses); at != nil {
		s = *at
	}
	last := s.Skills[len(s.Skills)-1]
	return &Error{
		Code: "skill_restricted", Stage: "lookup",
		Msg: fmt.Sprintf("the skill %q runs and does not let this call of %s be made; it lets be called: %s",
			last.Name, tool, strings.Join(append(s.Allowed(), SkillTool), ", ")),
		Hint: fmt.Sprintf("use these tools; the client ends the skill with POST /sessions/%s/skills/end", s.ID),
	}
}

// Allowed returns the entries that hold now; nil: nothing is restricted. Where a skill is within another and both
// list commands of one tool, a command must be in both lists.
func (s Session) Allowed() []string {
	var held []string
	s.skills(func(k Skill) bool {
		if held == nil {
			held = slices.Clone(k.Tools)
			return true
		}
		var both []string
		for _, entry := range held {
			name, _, _ := strings.Cut(entry, "(")
			for _, outer := range k.Tools {
				switch outerName, _, only := strings.Cut(outer, "("); {
				case !strings.EqualFold(name, outerName):
				case only && entry == name:
					both = append(both, outer)
				default:
					both = append(both, entry)
				}
			}
		}
		held = slices.Compact(append([]string{}, both...))
		return true
	})
	return held
}

// everyCommand reports whether each command of a call is in some entry of a skill.
func everyCommand(k Skill, tool string, uses guard.Uses) bool {
	if uses.Script == nil || len(uses.Script.Commands) == 0 || !told(uses.Script) {
		return false
	}
	for i := range uses.Script.Commands {
		c := &uses.Script.Commands[i]
		if !slices.ContainsFunc(k.Tools, func(entry string) bool {
			return k.names(entry, tool) && matches(entry, c)
		}) {
			return false
		}
	}
	return true
}

// whole reports whether an entry lets a tool be called with anything.
func whole(entry string) bool {
	_, spec, only := strings.Cut(entry, "(")
	return !only || strings.TrimSpace(strings.TrimSuffix(spec, ")")) == "*"
}

// told reports whether the commands say all that the script does: nothing of it is unknown,
// and no file is written by the shell itself.
func told(s *shellparse.Script) bool {
	if len(s.Opaque) > 0 || slices.ContainsFunc(s.Files, written) {
		return false
	}
	for i := range s.Commands {
		c := &s.Commands[i]
		word := func(w shellparse.Word) bool { return !w.Known }
		if len(c.Env) > 0 || slices.ContainsFunc(c.Args, word) {
			return false
		}
		for _, f := range c.Files {
			operand := f.At == c.At || slices.ContainsFunc(c.Args, func(w shellparse.Word) bool {
				return w.At.Offset <= f.At.Offset && f.At.Offset < w.At.End
			})
			if !operand && written(f) {
				return false
			}
		}
	}
	return true
}

func written(f shellparse.File) bool { return f.Access == guard.Write && f.Path != "/dev/null" }

// systemDirs hold the programs that a bare name means.
var systemDirs = []string{"/bin", "/usr/bin", "/usr/local/bin"}

// matches reports whether a command is in an entry such as "Bash(git diff:*)": it begins with
// these words, or is exactly them if no * follows.
func matches(entry string, c *shellparse.Command) bool {
	_, spec, only := strings.Cut(entry, "(")
	spec, closed := strings.CutSuffix(strings.TrimSpace(spec), ")")
	if !only || !closed {
		return false
	}
	prefix, more := strings.CutSuffix(spec, ":*")
	if !more {
		prefix, more = strings.CutSuffix(spec, " *")
	}
	words := strings.Fields(prefix)
	if len(words) == 0 || strings.Contains(prefix, "*") || !more && len(words) != len(c.Args)+1 ||
		len(words) > len(c.Args)+1 {
		return false
	}
	if words[0] != c.Path && (words[0] != c.Name || !slices.Contains(systemDirs, path.Dir(c.Path))) {
		return false
	}
	for i, w := range words[1:] {
		if c.Args[i].Text != w {
			return false
		}
	}
	return true
}
