package guard

import "slices"

// Forbids names a path that settings which were in force let a program reach, and that these
// refuse; "" is none. Hosts, commands and limits are not compared.
func (s Settings) Forbids(earlier Settings) string {
	for _, d := range s.DeniedPaths {
		if !withinAny(d, earlier.DeniedPaths) {
			return "deniedPaths has " + d
		}
	}
	for _, list := range []struct {
		key      string
		now, was []string
	}{
		{"allowedReadPaths", s.AllowedReadPaths, earlier.AllowedReadPaths},
		{"allowedWritePaths", s.AllowedWritePaths, earlier.AllowedWritePaths},
	} {
		switch {
		case len(list.now) == 0: // everything
		case len(list.was) == 0:
			return list.key + " does not have everything"
		default:
			for _, path := range list.was {
				if path != NoPath && !withinAny(path, list.now) {
					return list.key + " does not have " + path
				}
			}
		}
	}
	return ""
}

// withinAny reports whether a path lies in one of these.
func withinAny(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return Within(path, root) })
}
