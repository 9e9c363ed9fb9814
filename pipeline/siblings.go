package pipeline

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"golang.org/x/sys/unix"
)

// siblings returns the directories beside the workspace that a person is asked to open for a call: those in which
// its user can write. Where the user could not, a yes would change nothing. The home of the call is none of them:
// what it holds runs later, or opens other places.
func siblings(c *tool.Call) []guard.Sibling {
	all := c.In.Rules.Siblings(c.Facts.Uses, c.Workspace.Roots)
	return slices.DeleteFunc(all, func(s guard.Sibling) bool {
		dir := s.Path
		if dir == c.In.Home || strings.HasPrefix(c.In.Home, dir+"/") {
			return true
		}
		if s.Missing {
			dir = filepath.Dir(dir)
		}
		return c.Request.User.Do(func() error {
			return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		}) != nil
	})
}
