package catalog

import (
	"strings"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Filter keeps the tools whose names are on the allow list, all if it is empty, and of which neither the
// name nor [tool.As] is on the deny list (T-56). Names are compared without regard to case (CX-70).
func Filter(tools []tool.Tool, allow, deny []string) []tool.Tool {
	allowed, denied := fold(allow), fold(deny)
	kept := []tool.Tool{}
	for _, t := range tools {
		name := t.Spec().Name
		lower, as := strings.ToLower(name), strings.ToLower(tool.As(name))
		if (len(allowed) == 0 || allowed[lower]) && !denied[lower] && !denied[as] {
			kept = append(kept, t)
		}
	}
	return kept
}

func fold(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[strings.ToLower(n)] = true
	}
	return set
}
