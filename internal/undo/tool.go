package undo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/undo/conflict"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Name is the name of the tool.
const Name = "Undo"

// group returns the group with the tool. A nil journal is for documents.
func group(j *journal) catalog.Group {
	return catalog.Group{Name: "undo", Tools: []tool.Tool{undo{j}}}
}

// undo is the tool that puts back what a call changed.
type undo struct{ j *journal }

type undoArgs struct {
	CallID string   `json:"call_id"`
	Paths  []string `json:"paths"`
	Force  bool     `json:"force"`
}

// Spec implements [tool.Tool].
func (undo) Spec() tool.Spec {
	return tool.Spec{
		Name: Name,
		Description: "Puts back the files that a call of this session changed: their content, " +
			"mode and time before the call. A file that changed since is left as it is, and named. " +
			"An undo is a call, and can be undone.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"call_id":{"type":"string","description":"the call; without it the last one that changed something"},
"paths":{"type":"array","items":{"type":"string"},"description":"only these files and directories (default all)"},
"force":{"type":"boolean","description":"for operators: also files that changed since"}},
"additionalProperties":false}`),
		Class:       tool.ClassWrite,
		Restores:    true,
		Annotations: &tool.Annotations{},
		Returns:     &tool.Returns{Type: "object", Note: "which files were restored, and which were left"},
	}
}

// Uses implements [tool.Tool]: an undo writes the files.
func (t undo) Uses(ctx context.Context, in tool.In) (guard.Uses, error) {
	of, p, err := t.plan(ctx, in)
	if err != nil {
		return guard.Uses{}, err
	}
	var paths []string
	for _, i := range p.Lines {
		paths = append(paths, of.Changes[i].Path)
	}
	return usesOf(paths), nil
}

// plan returns the call and the changes that the arguments name.
func (t undo) plan(ctx context.Context, in tool.In) (call, plan, error) {
	var args undoArgs
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return call{}, plan{}, err
	}
	asked, _ := ctx.Value(askedKey{}).(asked)
	if args.Force && !asked.operator {
		return call{}, plan{}, &tool.Error{
			Code: "undo_force_denied", Msg: "only an operator may force an undo over what changed since",
			Hint: "undo without force: it leaves those files, and names them",
		}
	}
	if args.CallID == "" {
		if err := t.j.follow(ctx, in.Account, in.Session, in.Dir); err != nil {
			return call{}, plan{}, err
		}
		last, err := t.j.last(ctx, in.Account, in.Session)
		if err != nil {
			return call{}, plan{}, err
		}
		args.CallID = last
	}
	of, err := t.j.call(ctx, args.CallID)
	if err != nil {
		return call{}, plan{}, err
	}
	if !asked.operator && (of.Account != in.Account || of.Session != in.Session) {
		return call{}, plan{}, notKept(args.CallID)
	}
	if !of.Settled {
		return call{}, plan{}, isRunning(of.ID)
	}
	for i, path := range args.Paths {
		args.Paths[i] = clean(in.Dir, path)
	}
	p, err := planOf(of, args.Paths, args.Force)
	return of, p, err
}

// last returns the last call of a session that changed something and was not undone.
func (j *journal) last(ctx context.Context, account, session string) (string, error) {
	all, err := j.calls(ctx, `account = $1 AND session = $2 AND settled <> 0 AND undoes = '' AND
		EXISTS (SELECT 1 FROM undo_changes c WHERE c.call_id = undo_calls.call_id AND c.undone = '')
		ORDER BY n DESC LIMIT 1`, account, session)
	if err == nil && len(all) == 0 {
		err = &tool.Error{
			Code: "undo_nothing", Msg: "no call of this session changed a file that is kept and was not undone",
			Hint: "sandboxd changes lists what calls changed; name a call to undo an undo",
		}
	}
	if err != nil {
		return "", err
	}
	return all[0].ID, nil
}

// Run implements [tool.Tool].
func (t undo) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	of, p, err := t.plan(ctx, in)
	if err != nil {
		return tool.Output{}, err
	}
	for _, i := range p.Lines {
		if !judged(in.Judged, of.Changes[i].Path) {
			return tool.Output{}, &tool.Error{
				Code: "not_judged", Msg: "another call changed something meanwhile, and that was not judged",
				Hint: "name the call in call_id",
			}
		}
	}
	if r := recorderOf(ctx); r != nil {
		r.mu.Lock()
		r.undoes, r.plan = of.ID, encode(p)
		r.mu.Unlock()
	}
	// Half of an undo helps nobody.
	if asked, _ := ctx.Value(askedKey{}).(asked); asked.operator {
		box = operatorBox{box, bareBox{asked.user}}
	}
	x := restorer{j: t.j, box: box, by: in.CallID, of: of, approved: in.Approved}
	out, err := x.restore(context.WithoutCancel(ctx), p)
	if err != nil {
		return tool.Output{}, err
	}
	return tool.Output{Data: out, Text: out.text(of.Tool)}, nil
}

// maxSaid bounds the paths of each kind that a text for a model names. GET /calls/ID/diff has all.
const maxSaid = 50

// text says what an undo did.
func (u undone) text(tool string) string {
	var b strings.Builder
	switch {
	case len(u.Restored)+len(u.Conflicts) == 0:
		fmt.Fprintf(&b, "nothing to do: call %s (%s) was undone before", u.Undone, tool)
	case len(u.Restored) == 0:
		fmt.Fprintf(&b, "call %s (%s) was not undone", u.Undone, tool)
	case len(u.Conflicts) > 0:
		fmt.Fprintf(&b, "undid a part of call %s (%s)", u.Undone, tool)
	default:
		fmt.Fprintf(&b, "undid call %s (%s)", u.Undone, tool)
	}
	removed := u.removed()
	for i, path := range u.Restored {
		if i == maxSaid {
			fmt.Fprintf(&b, "\nand %d more", len(u.Restored)-i)
			break
		}
		word := "restored"
		if removed[path] {
			word = "removed"
		}
		fmt.Fprintf(&b, "\n%s %s", word, path)
	}
	for i, c := range u.Conflicts {
		if i == maxSaid {
			fmt.Fprintf(&b, "\nand left %d more", len(u.Conflicts)-i)
			break
		}
		fmt.Fprintf(&b, "\nleft %s: %s", c.Path, c.Why)
	}
	switch {
	case slices.ContainsFunc(u.Conflicts, conflict.Entry.IsOfCall):
		b.WriteString("\nWhat changed since the call stays. Undo the later call first, or let an operator use --force.")
	case slices.ContainsFunc(u.Conflicts, conflict.Entry.IsLater):
		b.WriteString("\nWhat changed since the call stays. An operator can put the old content back with --force.")
	}
	if slices.ContainsFunc(u.Conflicts, conflict.Entry.IsInUse) {
		b.WriteString("\nEnd the programs that write these files, and undo the call again.")
	}
	return b.String()
}
