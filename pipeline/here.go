package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// here is the executor of this process.
type here struct{ *Pipeline }

// Run runs the tool in a box with the judged settings, which opens files and runs programs with
// the rights of the caller.
func (h here) Run(ctx context.Context, c *tool.Call) error {
	box, err := h.box(ctx, c)
	if err != nil {
		return err
	}
	defer box.Close()
	c.In.Judged, c.In.Obligations = c.Facts.Uses, c.Decision.Obligations
	judged := *c
	c.In.Withheld = func(ctx context.Context, paths []string) (map[string]bool, error) {
		return h.running.inForce().Policy.Withheld(ctx, &judged, paths)
	}
	j := newConnections(h.Pipeline, c)
	h.running.connects(c.ID, j)
	defer h.running.connects(c.ID, nil)
	ctx = tool.WithClock(ctx, j.clock)
	box = box.Judged(j.judge)
	defer func() { c.Network = box.Ledger() }()
	c.Report = box.Report() // the journal reads it before the tool runs
	own := box.As(c.Request.User)
	if c.Approved() {
		bound, release, err := h.running.bind(ctx, own, c.Binding.Files)
		if err != nil {
			return err
		}
		defer release()
		own, c.In.Approved = boundBox{own, bound}, c.Binding.Sums
		if err := sandbox.OpenSiblings(ctx, own, c.Facts.Uses.Siblings); err != nil {
			return err
		}
	}
	out, err := h.run(ctx, c, own)
	report := box.Report()
	report.Denials = append(report.Denials, out.Denials...)
	c.Output, c.Report = out, report
	if err == nil {
		err = created(report)
	}
	moved := out.Dir != "" && out.Dir != c.Session.Dir || out.Tree != ""
	if err == nil && moved && c.Request.Scheduled == nil {
		err = h.move(ctx, c, out.Dir, out.Tree)
	}
	if err == nil {
		c.Result.SystemMessages = append(c.Result.SystemMessages, h.Hooks.Moved(ctx, c)...)
	}
	return err
}

// run runs the tool, and settles what it changed.
func (h here) run(ctx context.Context, c *tool.Call, box sandbox.Box) (out tool.Output, err error) {
	if h.Journal == nil {
		return c.Tool.Run(ctx, c.In, box)
	}
	kept, err := h.Journal.Keep(ctx, c)
	if err != nil {
		return out, err
	}
	defer func() { // a tool that panics may have changed something, too
		if failed := h.Journal.Collect(context.WithoutCancel(kept), c); failed != nil {
			err = errors.Join(err, failed)
		}
	}()
	if c.Undoable { // nobody was asked
		if why := h.Journal.Whole(kept, c); why != "" {
			return out, &tool.Error{
				Code: "undo_not_whole",
				Msg:  "the call was not run, for it may lose what cannot be undone any more: " + why,
				Hint: "call again: a person is asked then",
			}
		}
	}
	return c.Tool.Run(kept, c.In, box)
}

// Remember makes variables of the result and of the arguments.
func (h here) Remember(ctx context.Context, c *tool.Call) error {
	if err := h.Vars.Remember(ctx, c, h.pending(c)); err != nil {
		return err
	}
	if r := &c.Result; r.VarResult != "" {
		r.FinalText += tool.Hint(r.VarResult, r.FormattedText, r.FinalText, r.Truncated)
	}
	return nil
}

// created is the error of a call that made a denied path: the cage took it away.
func created(r sandbox.Report) error {
	for _, d := range r.Denials {
		if d.Layer == "denied_path_created" {
			return &tool.Error{
				Code: d.Layer, Msg: d.Act,
				Hint: cmp.Or(d.Setting, "the file was moved to quarantine; an operator can release it"),
			}
		}
	}
	return nil
}

// move keeps the directory that a shell was left in, for the next call of the
// session; a directory outside the workspace is not kept. Where the session began stays.
func (p *Pipeline) move(ctx context.Context, c *tool.Call, dir, tree string) error {
	inside := func(root string) bool { return guard.Within(dir, root) }
	if dir != "" && !slices.ContainsFunc(c.Workspace.Roots, inside) {
		return nil
	}
	_, err := p.Sessions.Patch(ctx, c.Session.Account, c.Session.ID, func(s *tool.Session) error {
		s.Dir, s.Tree = cmp.Or(dir, s.Dir), cmp.Or(tree, s.Tree)
		return nil
	})
	return err
}

func (p *Pipeline) box(ctx context.Context, c *tool.Call) (sandbox.Box, error) {
	box, err := p.Backend.Box(ctx, c.Session.ID, c.Session.Profile, c.Settings)
	var missing *sandbox.MissingError
	if errors.As(err, &missing) {
		return nil, &tool.Error{
			Code: "sandbox_missing", Msg: err.Error(),
			Hint: "sandboxd doctor says what this host cannot enforce; sandbox.require names what must hold",
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make the sandbox: %w", err)
	}
	return box, nil
}
