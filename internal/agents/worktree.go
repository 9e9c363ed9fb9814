package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/worktree"
)

// kept is a worktree that stays, because something in it was changed. If only its branch stays, Path is "".
type kept struct {
	Path   string `json:"path,omitempty"`
	Branch string `json:"branch"`
}

// String is what a model reads behind the text of the agent.
func (k *kept) String() string {
	if k.Path == "" {
		return fmt.Sprintf("\n[Worktree removed, its branch is still there: %s]", k.Branch)
	}
	return fmt.Sprintf("\n[Worktree kept: %s (branch: %s)]", k.Path, k.Branch)
}

// git runs git in the sandbox, with the settings of the session, because the configuration of a repository can name
// programs.
func (r *run) git() worktree.Git { return worktree.Git{Box: r.box, Host: r.f.host, Session: r.parent} }

// newWorktree makes a worktree with the first free name.
func (r *run) newWorktree(ctx context.Context, name string) (*worktree.Tree, error) {
	plain := strings.Map(func(c rune) rune {
		if c == ' ' || c == '.' {
			return '-'
		}
		return c
	}, name)
	for i := 1; ; i++ {
		numbered := plain
		if i > 1 {
			numbered = fmt.Sprintf("%s-%d", plain, i)
		}
		t, err := r.git().New(ctx, r.in.Dir, r.in.Roots, numbered)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != worktree.Exists || i == 50 {
			return &t, err
		}
	}
}

// settle removes the worktree if nothing in it was changed. It returns what stays.
func (r *run) settle(ctx context.Context) (*kept, error) {
	what, err := r.git().Changed(ctx, *r.tree)
	if err == nil && what == "" {
		if err = r.git().Remove(ctx, *r.tree, false); err == nil {
			return nil, nil
		}
	}
	if branch, ok := errors.AsType[*worktree.BranchError](err); ok {
		return &kept{Branch: branch.Branch}, err
	}
	return &kept{r.tree.Path, r.tree.Branch}, err
}
