package tool

import "strings"

// Pool puts tools together: later lists replace tools of the same name in
// earlier ones, in their place (T-55). Callers give built-in, custom and gateway
// tools in this order.
func Pool(lists ...[]Tool) []Tool {
	at := map[string]int{}
	var pool []Tool
	for _, list := range lists {
		for _, t := range list {
			name := t.Spec().Name
			if i, taken := at[name]; taken {
				pool[i] = t
				continue
			}
			at[name] = len(pool)
			pool = append(pool, t)
		}
	}
	return pool
}

// Filter keeps the tools that are on the allow list, all if it is empty, and not
// on the deny list (T-56). Names are compared without regard to case (CX-70).
func Filter(tools []Tool, allow, deny []string) []Tool {
	allowed, denied := fold(allow), fold(deny)
	kept := []Tool{}
	for _, t := range tools {
		name := strings.ToLower(t.Spec().Name)
		if (len(allowed) == 0 || allowed[name]) && !denied[name] {
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
