package replay

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// candidate are permission rules that together hold for a call.
type candidate struct {
	rules  []string
	narrow int  // more is narrower
	denies bool // only for what is refused: it takes words that nobody was asked about
}

// exactly is how narrow a rule is that holds for one text only.
const exactly = 1 << 20

// candidates returns the rules that hold for a call, the narrowest first.
func candidates(in *input.Document) []candidate {
	var out []candidate
	add := func(narrow int, denies bool, rules ...string) {
		slices.Sort(rules)
		rules = slices.Compact(rules)
		if len(rules) > 0 && (permission.Rules{Allow: rules}).Check() == nil {
			out = append(out, candidate{rules, narrow, denies})
		}
	}
	switch {
	case len(in.Opaque) > 0:
	case len(in.Commands) > 0:
		lines := make([]string, len(in.Commands))
		for i, c := range in.Commands {
			spaced := strings.Join(strings.Fields(c.Text), " ") != c.Text // a rule has single spaces
			if !c.Known || !c.Plain || spaced || strings.Contains(c.Text, "*") {
				return nil
			}
			lines[i] = "Bash(" + c.Text + ")"
		}
		add(exactly, false, lines...)
		if argv := in.Commands[0].Argv; len(in.Commands) == 1 {
			for n := len(argv) - 1; n >= 2 && !strings.HasPrefix(argv[1], "-"); n-- {
				// Later words can be options that write or run: find -fprint, git diff --output.
				add(n, true, "Bash("+strings.Join(argv[:n], " ")+" *)")
			}
		}
	case strings.HasPrefix(in.Tool.Name, "mcp__"):
		add(1, false, in.Tool.Name)
	case len(in.Paths) == 1 && in.Paths[0].Path != "":
		p := in.Paths[0]
		if strings.Contains(p.Path, "*") {
			return nil
		}
		add(exactly, false, in.Tool.Name+"(/"+p.Path+")")
		for dir := path.Dir(p.Path); p.InWorkspace && input.Below(dir, in.Session.Dir); dir = path.Dir(dir) {
			add(strings.Count(dir, "/"), false, in.Tool.Name+"(/"+dir+"/**)")
			if dir == "/" {
				break
			}
		}
	default:
		var params map[string]any
		if json.Unmarshal(in.Params, &params) == nil && len(params) == 1 {
			for name, value := range params {
				if text, ok := value.(string); ok && !strings.Contains(text, "*") {
					add(exactly, false, in.Tool.Name+"("+name+":"+text+")")
				}
			}
		}
		add(1, false, in.Tool.Name)
	}
	return out
}

// excepted returns what an exception from the rule with this id would name for a question: a command with its
// directory, or a path. It must be the only subject of the rule in the call.
func excepted(q *question, id string) (what string, ok bool) {
	if q.call.Decision.By != tool.ByRule {
		return "", false
	}
	var subject string
	for _, f := range q.call.Findings {
		if f.ID != id || f.Effect != policy.EffectAsk {
			continue
		}
		if subject != "" && subject != f.Subject {
			return "", false
		}
		subject = f.Subject
	}
	in := q.call.Input()
	for _, c := range in.Commands {
		if c.ID == subject && c.Plain && c.Known && c.Dir != "" {
			return fmt.Sprintf("[%s, %s]", quoted(c.Dir), quoted(c.Text)), true
		}
	}
	for _, p := range in.Paths {
		if p.ID == subject && p.Path != "" {
			return fmt.Sprintf("[%s, %s]", quoted(p.Op), quoted(p.Path)), true
		}
	}
	return "", false
}

// quoted returns a text as Rego has it.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic("cannot happen, a string is JSON: " + err.Error())
	}
	return string(b)
}

// exceptionRego returns the rule that asks in place of another one, but not about what is excepted.
func exceptionRego(info policy.RuleInfo, excepted []string) (file, text string) {
	_, rest, _ := strings.Cut(info.ID, ".")
	name := strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, rest)
	text = fmt.Sprintf(`# METADATA
# title: %s, but not about what people allowed
package sandboxd.policies.suggested.%s

allowed := {
	%s,
}

findings contains object.union(finding, {"id": %s}) if {
	some finding in data.%s.findings
	finding.id == %s
	not excepted(finding)
}

excepted(finding) if {
	some command in input.commands
	command.id == finding.subject
	command.plain
	command.known
	[command.dir, command.text] in allowed
}

excepted(finding) if {
	some path in input.paths
	path.id == finding.subject
	[path.op, path.path] in allowed
}
`, info.ID, name, strings.Join(excepted, ",\n\t"), quoted("suggested."+rest), info.Package, quoted(info.ID))
	if formatted, err := policy.Format(name+".rego", []byte(text)); err == nil {
		text = string(formatted)
	}
	return name + ".rego", text
}
