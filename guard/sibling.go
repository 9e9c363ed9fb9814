package guard

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sandboxd/sandboxd/shellparse"
)

// Sibling is a directory beside a workspace in which a call writes, and which a person may open for this call.
type Sibling struct {
	Path    string `json:"path"`              // physical
	Missing bool   `json:"missing,omitempty"` // it is made before the call runs
	root    string // the workspace beside which it lies
	at      shellparse.Pos
}

// Siblings returns the directories beside the workspaces in which a call writes and must not. A sandbox shows what is
// there when a call begins, and an empty directory that is there changes what some programs do. So one that is
// missing counts only where the first command that names it takes it as if it had made it.
//
// No directory counts whose name begins with a dot: beside a workspace lie the settings of a person. Nor one that
// belongs, or whose parent belongs, to somebody else than the workspace: beside a home lie those of others.
func (r *Rules) Siblings(u Uses, roots []string) []Sibling {
	if r == nil || !slices.ContainsFunc(u.Paths, r.outside) {
		return nil
	}
	var out []Sibling
	never := map[string]bool{}
	for _, p := range u.Paths {
		s, below, ok := r.beside(p, roots)
		if !ok || never[s.Path] || slices.ContainsFunc(out, func(o Sibling) bool { return o.Path == s.Path }) {
			continue
		}
		switch info, err := os.Lstat(s.Path); {
		case os.IsNotExist(err):
			s.Missing = true
			if !p.Glob && (p.Makes || u.Script == nil && p.Op == Write && below != "") {
				out = append(out, s)
			} else {
				never[s.Path] = true
			}
		case err != nil || !info.IsDir() || !sameOwner(s.root, s.Path):
		case !r.outside(p):
		case below == "" && !p.Glob && (p.Recursive && !p.Makes || u.deletes(s.Path)):
			never[s.Path] = true // the directory itself would go, which only a change of its parent allows
		default:
			out = append(out, s)
		}
	}
	return out
}

// outside reports whether a use writes where the settings do not allow it. A word that only looks like a path is
// left to the cage.
func (r *Rules) outside(p PathUse) bool {
	return p.Op == Write && (!p.Guess || p.Makes) && p.Path != "" && !r.write.empty() && !r.allows(r.write, p)
}

// beside returns the directory beside one of these roots that a path leads through, and the rest of the path.
func (r *Rules) beside(p PathUse, roots []string) (s Sibling, below string, ok bool) {
	path := p.Path
	if p.Glob {
		path = globDir(path)
	}
	for _, root := range roots {
		parent := filepath.Dir(root)
		rest, ok := strings.CutPrefix(path, parent+"/")
		if !ok || parent == "/" {
			continue
		}
		name, below, _ := strings.Cut(rest, "/")
		dir := filepath.Join(parent, name)
		_, writable := r.write.above(root)
		_, open := r.write.above(dir)
		_, closed := r.closed.above(dir)
		if !writable || open || closed || name == "" || name[0] == '.' || !sameOwner(root, parent) {
			continue
		}
		return Sibling{Path: dir, root: root, at: p.At}, below, true
	}
	return Sibling{}, "", false
}

// deletes reports whether a directory is deleted or renamed.
func (u Uses) deletes(dir string) bool {
	return slices.ContainsFunc(u.Deletes, func(d Deletion) bool { return d.Path == dir })
}

func sameOwner(a, b string) bool {
	owner, ok := ownerOf(a)
	other, known := ownerOf(b)
	return ok && known && owner == other
}

func ownerOf(path string) (uid uint32, ok bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return st.Uid, true
}

// WithSiblings returns the settings that a person may allow for a call that writes beside its workspace: s and these
// directories, and nothing else.
func (s Settings) WithSiblings(siblings []Sibling) Settings {
	s.AllowedWritePaths = slices.Clone(s.AllowedWritePaths)
	for _, sib := range siblings {
		s.AllowedWritePaths = append(s.AllowedWritePaths, sib.Path)
	}
	return s
}

// asks returns the question about a sibling.
func (s Sibling) asks() Refusal {
	does := "write in"
	if s.Missing {
		does = "make and write"
	}
	return Refusal{
		Code:    "sibling_asked",
		Message: fmt.Sprintf("it asks to %s the directory %s, which lies beside the workspace", does, s.Path),
		Hint:    "a path in the workspace needs no question, such as " + filepath.Join(s.root, filepath.Base(s.Path)),
		Rule:    "allowedWritePaths", At: s.at, Ask: true,
	}
}
