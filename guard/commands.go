package guard

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse"
)

// trustedDirs hold the programs that a bare name in allowedCommands means, in addition to the one that PATH finds
// (A4).
var trustedDirs = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}

func (r *Rules) checkScript(s *shellparse.Script) []Refusal {
	var out []Refusal
	for i := range s.Commands {
		c := &s.Commands[i]
		if ref := r.checkCommand(c); ref != nil {
			out = append(out, *ref)
		}
		out = append(out, r.checkHosts(c)...)
	}
	for _, o := range s.Opaque {
		if ref := r.checkOpaque(o); ref != nil {
			out = append(out, *ref)
		}
	}
	return out
}

func (r *Rules) checkCommand(c *shellparse.Command) *Refusal {
	if c.Name == "" {
		caged := !r.s.HasCommandRules()
		return &Refusal{
			Code:    "command_unknown",
			Message: fmt.Sprintf("command '%s' is only known when it runs", c.Path) + detected(c),
			Hint:    "write the name of the program out",
			Rule:    "command name", At: c.At, Ask: caged, Caged: caged,
		}
	}
	if r.allowed == nil {
		return r.checkDenyList(c)
	}
	if c.Script || r.listed(c) {
		return nil
	}
	hint := "allowedCommands allows " + some(r.s.AllowedCommands)
	if len(r.s.AllowedCommands) == 0 {
		hint = "allowedCommands is an empty list, so nothing may run; leave it out to use deniedCommands instead"
	}
	if c.Path != c.Name && r.allowed[c.Name] {
		hint = fmt.Sprintf("'%s' in allowedCommands is the program found in PATH, not %s", c.Name, c.Path)
	}
	return &Refusal{
		Code:    "command_not_allowed",
		Message: fmt.Sprintf("command '%s' is denied by sandbox policy", c.Name) + detected(c),
		Hint:    hint, Rule: "allowedCommands", At: c.At,
	}
}

func (r *Rules) checkDenyList(c *shellparse.Command) *Refusal {
	// A denied name matches in any directory (A4). A denied path matches only itself.
	if !r.refused[c.Name] && !(path.IsAbs(c.Path) && r.refused[path.Clean(c.Path)]) {
		return r.checkNamed(c)
	}
	return &Refusal{
		Code:    "command_denied",
		Message: fmt.Sprintf("command '%s' is denied by sandbox policy", c.Name) + detected(c),
		Hint: fmt.Sprintf("'%s' is in deniedCommands; do it another way, or ask the operator to remove it",
			c.Name),
		Rule: "deniedCommands: " + c.Name, At: c.At,
	}
}

// checkNamed looks for denied programs in the words of an unknown command, because it may start them.
func (r *Rules) checkNamed(c *shellparse.Command) *Refusal {
	if len(r.refused) == 0 || c.Script {
		return nil
	}
	if c.Listed() {
		return nil
	}
	for _, a := range c.Args {
		name := r.namedIn(a.Text)
		if name == "" {
			continue
		}
		return &Refusal{
			Code:    "command_denied",
			Message: fmt.Sprintf("'%s' may start '%s', which is denied by sandbox policy", c.Name, name),
			Hint: fmt.Sprintf("nothing is known of '%s', and '%s' is in deniedCommands; do it another way",
				c.Name, name),
			Rule: "deniedCommands: " + name, At: a.At,
		}
	}
	return nil
}

// namedIn returns the first denied program that a word names: by a path anywhere in it, or by its name alone where a
// command can begin.
func (r *Rules) namedIn(word string) string {
	begins := true
	for word != "" {
		end := strings.IndexAny(word, " \t\n;|&()<>=,:@!'\"`$")
		if end < 0 {
			end = len(word)
		}
		if token := strings.TrimLeft(word[:end], "-"); token != "" {
			slash := strings.Contains(token, "/")
			named := begins && token == word[:end] // --rm is an option
			if (named || slash) && r.refused[path.Base(token)] || path.IsAbs(token) && r.refused[path.Clean(token)] {
				return path.Base(token)
			}
			begins = false
		}
		if end == len(word) {
			return ""
		}
		begins = begins || strings.IndexByte(";|&(=@!`", word[end]) >= 0
		word = word[end+1:]
	}
	return ""
}

func (r *Rules) listed(c *shellparse.Command) bool {
	if c.Path == c.Name {
		return r.allowed[c.Name]
	}
	if !path.IsAbs(c.Path) {
		return false
	}
	clean := path.Clean(c.Path)
	if r.allowed[clean] {
		return true
	}
	return r.allowed[c.Name] && slices.Contains(trustedDirs, path.Dir(clean))
}

// detected says how the line reaches a command that does not stand there plainly.
func detected(c *shellparse.Command) string {
	for i := len(c.Via) - 1; i >= 0; i-- {
		switch v := c.Via[i]; v {
		case "pipeline", "subshell", "function":
		default:
			return " (detected in " + v + ")"
		}
	}
	return ""
}

func (r *Rules) checkHosts(c *shellparse.Command) []Refusal {
	// Settings without lists of hosts leave hosts to the cage, which then reaches none. With a list, the answer can
	// name the host.
	if n := r.s.Network; n.AllowedDomains == nil && n.DeniedDomains == nil && n.Unlisted == "" {
		return nil
	}
	var out []Refusal
	for _, h := range c.Hosts {
		if ownLoopback(h) {
			continue
		}
		if ref := checkHost(h, r.s); ref != nil {
			ref.At = c.At
			out = append(out, *ref)
		}
	}
	return out
}

func (r *Rules) checkOpaque(o shellparse.Opaque) *Refusal {
	commands := r.s.HasCommandRules()
	if !commands && !o.Typed && (o.CommandsOnly || !r.s.HasPathRules()) {
		return nil
	}
	if o.Code == "path_extended" && r.allowed == nil {
		return nil
	}
	rule := "path rules"
	switch {
	case r.allowed != nil:
		rule = "allowedCommands"
	case commands:
		rule = "deniedCommands"
	}
	hint := o.Hint
	if hint == "" {
		hint = "write it as plain commands, or put the code in a file of the workspace and run that"
	}
	return &Refusal{
		Code: "opaque", Message: o.Message, Hint: hint, Rule: rule, At: o.At,
		// An unknown name is unknown in a wrapper, too.
		Ask: o.Inline || o.Code == "unknown_command" && !commands,
		// Nobody judges what is typed, so a cage is not enough.
		Caged: !commands && !o.Typed,
	}
}

// parseRefusal returns the answer to text that shellparse refuses.
func parseRefusal(e *shellparse.Error) Refusal {
	ref := Refusal{Code: e.Code, Message: e.Msg, Hint: e.Hint, Rule: "shell text", At: e.At}
	switch e.Code {
	case "syntax", "unsupported", "parser_difference":
		ref.Message = "command contains unparseable shell metacharacters"
		ref.Hint = strings.TrimSuffix(e.Msg+"; "+e.Hint, "; ")
	}
	return ref
}
