package permission

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/sandboxd/sandboxd/policy/input"
)

// addCommand takes the specifier of Bash. Each command of a line is looked at by
// itself, so a rule that spans two can never match.
func (t table) addCommand(spec string) error {
	if i := strings.IndexAny(spec, "|&;<>`\n"); i >= 0 {
		return fmt.Errorf("it can never match: %q joins commands, and each command of a line is judged by itself",
			spec[i:i+1])
	}
	if strings.Contains(spec, "$(") {
		return errors.New("it can never match: the inner command of a substitution is judged by itself")
	}
	first, _, _ := strings.Cut(spec, " ")
	if strings.Contains(first, "=") {
		return fmt.Errorf("it can never match: the assignment %s stands in front of a command and is not part of it",
			first)
	}
	if fixed, _, _ := strings.Cut(first, "*"); strings.Contains(fixed, "/") {
		return fmt.Errorf("it can never match: programs are known by name, without a directory; want %s, and no "+
			"allow for programs outside the system directories",
			path.Base(strings.TrimSuffix(first, ":*")))
	}
	if head, ok := strings.CutSuffix(spec, ":*"); ok {
		spec = head + " *"
	}
	words := strings.Fields(spec)
	if strings.Trim(strings.Join(words, ""), "*") == "" {
		return errors.New("it names no command; leave the parentheses out to match the whole tool")
	}
	spec = strings.Join(words, " ")
	last := len(words) - 1
	switch {
	case !strings.Contains(spec, "*"):
		t.put(nil, "lines", spec)
	case words[last] == "*" && !strings.Contains(strings.Join(words[:last], " "), "*"):
		t.addPrefix(words[:last])
	default:
		key := words[0]
		if strings.Contains(key, "*") {
			key = ""
		}
		t.put(map[string]any{"regex": wildcard(spec)}, "command_patterns", key)
	}
	return nil
}

// addPrefix: an allow matches words as written; the others match the meaning, in
// which rm -fr is rm -rf, and git -C x push is git push.
func (t table) addPrefix(words []string) {
	if t.effect == allow {
		t.put(nil, "commands", strings.Join(words, " "))
		return
	}
	flags, operands := input.Split(words[0], words[1:])
	need := []any{}
	for _, f := range flags {
		if len(f) == 2 || strings.HasPrefix(f, "--") || len(input.Clustered(f)) == 0 {
			need = append(need, f)
		}
	}
	t.put(map[string]any{"flags": need}, "commands", strings.Join(append(words[:1:1], operands...), " "))
}
