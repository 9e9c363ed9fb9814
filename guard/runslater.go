package guard

import "github.com/sandboxd/sandboxd/guard/obeyed"

// RunsLater returns the program of the host that obeys a file of this path by itself, ""
// if none does. What lies above the outermost of the roots that holds the path does not
// count: a workspace may lie in an agent's own directory.
func (u PathUse) RunsLater(roots []string) string {
	find := obeyed.Find
	if u.Glob {
		find = obeyed.FindPattern
	}
	if n := find(u.Path, u.root(roots)); n != nil {
		return n.Program
	}
	return ""
}

// Plants returns the program that starts, by itself, something that the file says which this use
// writes: one of the host, or a tool of the project. It is "" if none does.
func (u PathUse) Plants(roots []string) string {
	if u.Op != Write {
		return ""
	}
	if program := u.RunsLater(roots); program != "" {
		return program
	}
	if n := obeyed.Plants(u.Path, u.root(roots)); n != nil {
		return n.Program
	}
	return ""
}

// root is the outermost of the roots that holds the path.
func (u PathUse) root(roots []string) string {
	root := ""
	for _, r := range roots {
		if Within(u.Path, r) && (root == "" || Within(root, r)) {
			root = r
		}
	}
	return root
}
