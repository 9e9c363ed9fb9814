package undo

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Whole implements [part.Journal]. It looks at each file of the trees in which the call may change something.
func (j *journal) Whole(ctx context.Context, c *tool.Call) string {
	switch {
	case j.settings().Mode == "off":
		return Off
	case c.Spec.Class != tool.ClassExec:
		return "only of commands is known what they may lose"
	case len(c.Settings.AllowedWritePaths) == 0:
		return "writing is not restricted"
	}
	roots := rootsOf(c)
	for _, use := range c.Facts.Uses.Paths {
		within := func(root string) bool { return guard.Within(use.Path, root) }
		if use.Op != guard.Read && use.Path != "" && use.Path != os.DevNull && !slices.ContainsFunc(roots, within) {
			return "of " + use.Path + " nothing is kept"
		}
	}
	r := &recorder{j: j, call: c, config: j.settings(), all: true}
	for _, root := range roots {
		s, err := j.tree(ctx, root)
		if err == nil {
			err = r.begin(ctx, s, false)
		}
		if err != nil {
			return err.Error()
		}
		if why := s.lacks(r.may); why != "" {
			return why
		}
	}
	return ""
}

// lacks returns why a part of the tree, in which calls may write, is not kept.
func (s *snapshot) lacks(may func(string) bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skips {
		return "undo.exclude names files in " + s.root
	}
	for path := range s.closed {
		return path + " cannot be looked into, or something is mounted there"
	}
	for path, is := range s.known {
		if (is.Type == unreadable || is.Type == isFile && is.Sum == "") && may(path) {
			return fmt.Sprintf("%s is too large, not readable, or has no room in the store", path)
		}
	}
	return ""
}
