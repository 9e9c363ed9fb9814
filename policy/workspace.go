package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/policy/input"
	"github.com/sandboxd/sandboxd/policy/permission"
)

// WorkspaceFile is where a workspace keeps rules of its own. Whoever wrote the
// repository wrote it, so it is data, may only tighten, concerns sessions that work or began in
// that workspace alone, and is read only where the operator switched it on.
const WorkspaceFile = ".sandboxd/policy.json"

// Caps on workspace rules.
const (
	maxWorkspaceBytes = 64 << 10
	maxWorkspaceRules = 500
)

// WorkspaceStatus is what is known of the rules of one workspace.
type WorkspaceStatus struct {
	Root    string `json:"root"`
	Rules   int    `json:"rules"`
	Failure string `json:"failure,omitempty"` // of the file as it is now; the rules are those of the last good one
}

// workspace is the compiled rules of one workspace.
type workspace struct {
	WorkspaceStatus
	rules  permission.Rules
	index  permission.Index
	judged judgedPackage
}

// workspaces returns those at present whose file is read.
func (o Options) workspaces() []string {
	if o.Workspaces == nil {
		return nil
	}
	return o.Workspaces()
}

// loadWorkspaces reads the file of each root. One that cannot be used stops
// nothing, since a repository must not stop the daemon: the last good rules of the
// root stay, and the status says so.
func loadWorkspaces(ctx context.Context, c *ast.Compiler, roots []string, before []workspace) []workspace {
	var out []workspace
	for _, root := range roots {
		w, err := newWorkspace(ctx, c, root)
		if err != nil {
			for _, old := range before {
				if old.Root == root {
					w = old
				}
			}
			w.Root, w.Failure = root, err.Error()
		}
		out = append(out, w)
	}
	return out
}

func newWorkspace(ctx context.Context, c *ast.Compiler, root string) (workspace, error) {
	w := workspace{WorkspaceStatus: WorkspaceStatus{Root: root}}
	b, err := readInside(root, WorkspaceFile)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return w, err
	}
	var file struct {
		Ask  []string `json:"ask"`
		Deny []string `json:"deny"`
	}
	if err := errors.Join(strictjson.CheckFolded(b), strictjson.Decode(b, &file)); err != nil {
		return w, fmt.Errorf("%s: want {\"ask\": [rules], \"deny\": [rules]}: %w", WorkspaceFile, err)
	}
	if w.Rules = len(file.Ask) + len(file.Deny); w.Rules > maxWorkspaceRules {
		return w, fmt.Errorf("%s: %d rules, at most %d are loaded", WorkspaceFile, w.Rules, maxWorkspaceRules)
	}
	w.rules = permission.Rules{Ask: file.Ask, Deny: file.Deny}
	tables, err := permission.Tables(w.rules)
	if err != nil {
		return w, fmt.Errorf("%s: %w", WorkspaceFile, err)
	}
	w.index = permission.NewIndex(tables)
	w.judged.name = "sandboxd.policies.core.rules"
	w.judged.query, err = prepare(ctx, c, "data."+w.judged.name+".findings", newStore(tables))
	return w, err
}

// readInside reads a file below root: no link leads out of it, and nothing but a
// regular file is waited for.
func readInside(root, name string) ([]byte, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxWorkspaceBytes+1))
	if err == nil && len(b) > maxWorkspaceBytes {
		err = fmt.Errorf("%s has more than %d bytes", name, maxWorkspaceBytes)
	}
	return b, err
}

// workspaceFindings returns those of the workspaces that the session is in and began in. What a rule says is the
// repository's text, so the model is told its number instead.
func (r *revision) workspaceFindings(e evaluation, in *input.Document) ([]Finding, error) {
	var out []Finding
	for _, w := range r.workspaces {
		if w.Rules == 0 || !in.In(w.Root) {
			continue
		}
		view := *in // with the kinds of these rules
		if view.RuleKinds = w.index.Kinds(in); len(view.RuleKinds) == 0 {
			continue
		}
		found, err := e.ask(w.judged, view.Value(nil))
		if err != nil {
			return nil, fmt.Errorf("rules of the workspace %s: %w", w.Root, err)
		}
		for _, f := range found {
			f.ID = ruleNumber(w.rules, f)
			f.Message = fmt.Sprintf("%s is for a person to decide, by %s of the workspace", in.Tool.Name, WorkspaceFile)
			if f.Effect == EffectDeny {
				f.Message = fmt.Sprintf("%s is denied by %s of the workspace", in.Tool.Name, WorkspaceFile)
			} else {
				f.Effect = EffectAsk // it can only tighten
			}
			out = append(out, f)
		}
	}
	return out, nil
}

// ruleNumber names the rule behind a finding: workspace.deny.0.
func ruleNumber(r permission.Rules, f Finding) string {
	for i, text := range r.Deny {
		if f.Effect == EffectDeny && f.ID == "deny "+text {
			return fmt.Sprintf("workspace.deny.%d", i)
		}
	}
	for i, text := range r.Ask {
		if f.ID == "ask "+text {
			return fmt.Sprintf("workspace.ask.%d", i)
		}
	}
	return "workspace.rule"
}
