package hooks

import (
	"context"
	"slices"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Changed fires fileChanged for each file that the tool of a call declared as written. A shell command can write
// thousands of files; postToolUse has their list.
func (r *Registry) Changed(ctx context.Context, c *tool.Call) []string {
	var messages []string
	if r.Has(FileChanged) && c.Facts.Uses.Script == nil {
		for _, path := range written(c.Facts.Uses.Paths) {
			in := callInput(c)
			in.FilePath = path
			messages = append(messages, r.tell(ctx, FileChanged, in)...)
		}
	}
	return messages
}

// Moved fires cwdChanged if a call left its session in another directory.
func (r *Registry) Moved(ctx context.Context, c *tool.Call) []string {
	to := c.Output.Dir
	if to == "" || to == c.Session.Dir || !r.Has(CwdChanged) {
		return nil
	}
	in := callInput(c)
	in.Cwd = to
	return r.tell(ctx, CwdChanged, in)
}

func written(uses []guard.PathUse) []string {
	var paths []string
	for _, u := range uses {
		if u.Op == guard.Write && u.Path != "" && !u.Glob && !slices.Contains(paths, u.Path) {
			paths = append(paths, u.Path)
		}
	}
	return paths
}

// Refused fires permissionDenied; the reason is the error of its input.
func (r *Registry) Refused(ctx context.Context, c *tool.Call) []string {
	if !r.Has(PermissionDenied) {
		return nil
	}
	in := callInput(c)
	_, failure := resultOf(c)
	in.Error = first(c.Result.RejectReason, failure)
	return r.tell(ctx, PermissionDenied, in)
}

// tell fires an event that has already happened. Its hooks can block nothing, and they run even if the caller has left.
func (r *Registry) tell(ctx context.Context, event Event, in Input) []string {
	answer, err := r.Fire(context.WithoutCancel(ctx), event, in)
	if err != nil {
		return nil
	}
	return answer.Advice.Messages
}

// join is the strictest of what two events advise about one call, a before b.
func join(a, b tool.Advice) tool.Advice {
	a.Messages = append(a.Messages, b.Messages...)
	switch {
	case a.Block:
		return a
	case b.Block:
		a.Block, a.Reason = true, b.Reason
	case b.Ask:
		a.Ask, a.Reason = true, first(a.Reason, b.Reason)
	case b.Allow:
		a.Allow = true
	}
	if b.Args != nil {
		a.Args = b.Args
	}
	settle(&a)
	return a
}
