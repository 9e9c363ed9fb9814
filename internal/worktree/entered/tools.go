package entered

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/worktree"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
)

// commands are judged as if a shell ran them: rules about git, and about what is written and lost, hold.
func commands(in tool.In, lines ...[]string) (guard.Uses, error) {
	var text strings.Builder
	for _, words := range lines {
		text.WriteString(tool.CommandLine(words...) + "\n")
	}
	script, err := shellparse.Parse(text.String(), shellparse.Options{Dir: in.Dir, Home: in.Home})
	if err != nil {
		return guard.Uses{}, err
	}
	return in.Rules.ScriptUses(script, in.Dir), nil
}

// git is git in the box of a call, for its session.
func (f *feature) git(ctx context.Context, in tool.In, box sandbox.Box) (worktree.Git, error) {
	s, err := f.host.Sessions.Session(ctx, in.Account, in.Session)
	return worktree.Git{Box: box, Host: f.host, Session: s}, err
}

// enter is the tool EnterWorktree.
type enter struct{ f *feature }

type enterArgs struct{ Name string }

// Spec implements [tool.Tool].
func (enter) Spec() tool.Spec {
	return tool.Spec{
		Name: "EnterWorktree", Class: tool.ClassState, Annotations: &tool.Annotations{},
		Origin: tool.OriginRepository, NoCache: true,
		Description: "Makes a git worktree of the last commit, on a branch of its own, and goes on in it: the " +
			"working directory of the session lies there until ExitWorktree.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"name":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
	"description":"of the directory; the branch is worktree-NAME"}},
"required":["name"],"additionalProperties":false}`),
	}
}

// Uses implements [tool.Tool].
func (enter) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	args, err := tool.Decode[enterArgs](in)
	if err != nil {
		return guard.Uses{}, err
	}
	path, branch, err := worktree.Place(in.Dir, in.Roots, args.Name)
	if err != nil {
		return guard.Uses{}, err
	}
	physical, err := in.Rules.Resolve(path, in.Dir, in.Home)
	if err != nil {
		return guard.Uses{}, err
	}
	uses, err := commands(in, []string{"git", "worktree", "add", "-b", branch, path, "HEAD"})
	uses.Paths = append(uses.Paths, guard.PathUse{Raw: path, Path: physical, Op: guard.Write})
	return uses, err
}

// Run implements [tool.Tool].
func (e enter) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[enterArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	git, err := e.f.git(ctx, in, box)
	if err != nil {
		return tool.Output{}, err
	}
	p := place{Back: in.Dir, BackTree: git.Session.Tree}
	if p.Tree, err = git.New(ctx, in.Dir, in.Roots, args.Name); err != nil {
		return tool.Output{}, err
	}
	err = e.f.change(ctx, in.Session, func(k *kept) error {
		if len(k.In) >= maxIn {
			return &tool.Error{
				Code: "too_many_worktrees", Msg: fmt.Sprintf("the session is in %d worktrees", maxIn),
				Hint: "leave some with ExitWorktree",
			}
		}
		k.Last++
		p.ID = fmt.Sprintf("worktree_%d", k.Last)
		k.In = append(k.In, p)
		return nil
	})
	if err != nil {
		return tool.Output{}, errors.Join(err, git.Remove(context.WithoutCancel(ctx), p.Tree, true))
	}
	return tool.Output{
		Data: data(p), Dir: p.Tree.Dir, Tree: p.Tree.For(in.Dir, git.Session.Tree, git.Session.Begun),
		Text: fmt.Sprintf("Worktree created: %s at %s (branch: %s)", p.ID, p.Tree.Path, p.Tree.Branch),
	}, nil
}

func data(p place) map[string]any {
	return map[string]any{"id": p.ID, "path": p.Tree.Path, "branch": p.Tree.Branch}
}

// exit is the tool ExitWorktree.
type exit struct{ f *feature }

type exitArgs struct {
	ID      string
	Action  string
	Discard bool `json:"discard_changes"`
}

// Spec implements [tool.Tool].
func (exit) Spec() tool.Spec {
	return tool.Spec{
		Name: "ExitWorktree", Class: tool.ClassState, Annotations: &tool.Annotations{Destructive: true},
		Origin: tool.OriginRepository, NoCache: true,
		Description: "Leaves a worktree that EnterWorktree made, for the directory before, and removes it with its " +
			"branch. One in which something was changed is not removed unless discard_changes says so.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"id":{"type":"string","minLength":1,"description":"of the worktree, such as worktree_1"},
"action":{"type":"string","enum":["keep","remove"],"description":"default remove"},
"discard_changes":{"type":"boolean","description":"with remove: lose what was changed (default false)"}},
"required":["id"],"additionalProperties":false}`),
	}
}

// Uses implements [tool.Tool].
func (e exit) Uses(ctx context.Context, in tool.In) (guard.Uses, error) {
	args, err := tool.Decode[exitArgs](in)
	if err != nil || e.f.host.DB == nil { // documents ask without a daemon
		return guard.Uses{}, err
	}
	k, err := e.f.load(ctx, in.Session)
	if err != nil {
		return guard.Uses{}, err
	}
	p, err := k.find(args.ID)
	switch {
	case err != nil:
		return guard.Uses{}, err
	case args.Action == "keep":
		return guard.Uses{}, nil
	case args.Discard:
		return commands(in, []string{"git", "worktree", "remove", "--force", p.Tree.Path},
			[]string{"git", "branch", "-D", p.Tree.Branch})
	}
	return commands(in, []string{"git", "worktree", "remove", p.Tree.Path},
		[]string{"git", "branch", "-d", p.Tree.Branch})
}

// Run implements [tool.Tool].
func (e exit) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[exitArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	k, err := e.f.load(ctx, in.Session)
	if err != nil {
		return tool.Output{}, err
	}
	p, err := k.find(args.ID)
	if err != nil {
		return tool.Output{}, err
	}
	out := tool.Output{Data: data(p), Text: "Worktree kept: " + p.ID}
	instead := ""
	if guard.Within(in.Dir, p.Tree.Path) {
		if out.Dir, instead, err = e.back(ctx, in, box, p); err != nil {
			return tool.Output{}, err
		}
	}
	s, err := e.f.host.Sessions.Session(ctx, in.Account, in.Session)
	if err != nil {
		return tool.Output{}, err
	}
	if guard.Within(s.Tree, p.Tree.Path) {
		out.Tree = cmp.Or(p.BackTree, s.Begun)
	}
	if args.Action != "keep" {
		out.Text = "Worktree removed: " + p.ID
		branch := (*worktree.BranchError)(nil)
		switch err := e.remove(ctx, in, box, p, args.Discard); {
		case errors.As(err, &branch): // there is no worktree any more that the session could be in
			instead += fmt.Sprintf("\nIts branch %s is still there: %v", branch.Branch, branch.Err)
		case err != nil:
			return tool.Output{}, err
		}
	}
	if err := e.f.change(context.WithoutCancel(ctx), in.Session, func(k *kept) error {
		if p, err = k.find(p.ID); err == nil {
			k.leave(p)
		}
		return err
	}); err != nil {
		return tool.Output{}, err
	}
	out.Text += instead
	return out, nil
}

// back returns where the session goes on: where it was before, or in the workspace of the worktree if that is gone,
// was replaced by a link, or is in no workspace any more. instead says so.
func (e exit) back(ctx context.Context, in tool.In, box sandbox.Box, p place) (dir, instead string, err error) {
	git, err := e.f.git(ctx, in, box)
	if err != nil {
		return "", "", err
	}
	why := git.Usable(ctx, p.Back, in.Roots)
	if why == nil {
		return p.Back, "", nil
	}
	i := slices.IndexFunc(in.Roots, func(root string) bool { return guard.Within(p.Tree.Path, root) })
	if i < 0 || git.Usable(ctx, in.Roots[i], in.Roots) != nil {
		return "", "", &tool.Error{
			Code: "no_directory",
			Msg: fmt.Sprintf("the session cannot leave %s: %s, where it was before, cannot be used: %v",
				p.ID, p.Back, why),
			Hint: "make that directory again",
		}
	}
	return in.Roots[i], fmt.Sprintf("\nThe session goes on in %s: %s, where it was before, cannot be used any more.",
		in.Roots[i], p.Back), nil
}

func (e exit) remove(ctx context.Context, in tool.In, box sandbox.Box, p place, discard bool) error {
	git, err := e.f.git(ctx, in, box)
	if err != nil {
		return err
	}
	if !discard {
		what, err := git.Changed(ctx, p.Tree)
		if err != nil {
			return fmt.Errorf("nobody can say what was changed in %s: %w", p.Tree.Path, err)
		}
		if what != "" {
			return &tool.Error{
				Code: "worktree_changed",
				Msg:  fmt.Sprintf("%s at %s (branch: %s) was not removed: %s", p.ID, p.Tree.Path, p.Tree.Branch, what),
				Hint: "commit and call with action keep, or with discard_changes true to lose it",
			}
		}
	}
	return git.Remove(ctx, p.Tree, discard)
}
