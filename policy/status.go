package policy

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Failure is a reload that did not take effect.
type Failure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// Status is what GET /policies answers.
type Status struct {
	Revision string     `json:"revision"`
	Loaded   time.Time  `json:"loaded_at"`
	Profile  Profile    `json:"profile"`
	Disabled []string   `json:"disabled,omitempty"`
	Failure  *Failure   `json:"last_failure,omitempty"` // set while an older revision judges than the files say
	Rules    []RuleInfo `json:"rules"`
	Loosens  *Loosening `json:"loosens,omitempty"` // what the last reload loosened

	Workspaces []WorkspaceStatus `json:"workspaces,omitempty"`
}

// Status says which revision judges, and whether a newer one failed to load.
func (e *Engine) Status() Status {
	r := e.current.Load()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{
		Revision: r.id, Loaded: r.loaded, Profile: e.opts.Profile,
		Disabled: slices.Clone(e.opts.Disable), Rules: slices.Clone(r.rules),
	}
	for _, w := range r.workspaces {
		s.Workspaces = append(s.Workspaces, w.WorkspaceStatus)
	}
	if l := e.loosens; l.Looser > 0 || l.Unknown > 0 {
		s.Loosens = &l
	}
	if e.failure != nil {
		f := *e.failure
		s.Failure = &f
	}
	return s
}

// Reload loads everything again and swaps it in at once. If it fails, the last
// good revision goes on judging and Status says so. Loosen is for Options.Compare.
func (e *Engine) Reload(ctx context.Context, loosen bool) error {
	e.reload.Lock()
	defer e.reload.Unlock()
	err := e.swap(ctx, loosen)
	if err != nil && ctx.Err() != nil { // nobody wants it any more, which says nothing of the files
		return err
	}
	if e.opts.Reloaded != nil {
		e.opts.Reloaded(err)
	}
	return err
}

func (e *Engine) swap(ctx context.Context, loosen bool) error {
	var loosens Loosening
	before := e.current.Load()
	r, err := load(ctx, e.opts, before)
	if err == nil && e.opts.Compare != nil && r.id != before.id {
		loosens, err = e.opts.Compare(ctx, Judge{e, before}, Judge{e, r}, loosen)
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.failure = &Failure{At: time.Now(), Error: err.Error()}
		return fmt.Errorf("reload policies, revision %s stays: %w", before.id, err)
	}
	e.failure, e.loosens = nil, loosens
	e.current.Store(r)
	return nil
}
