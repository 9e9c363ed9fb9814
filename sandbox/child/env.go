package child

import (
	"slices"
	"strings"
)

// withEnv puts more over env.
func withEnv(env, more []string) []string {
	out := slices.Clone(env)
	for _, e := range more {
		name, _, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			continue
		}
		out = slices.DeleteFunc(out, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		out = append(out, e)
	}
	return out
}
