package policy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// WatchInterval is how often Watch looks at the operator's files.
const WatchInterval = 2 * time.Second

// Watch reloads when a file in the operator's directories changes, until ctx
// ends. It calls onReload after each attempt, with the error of a reload that
// failed. Looking is used instead of notification, since it also works on network
// and overlay file systems and for directories that are replaced as a whole.
func (e *Engine) Watch(ctx context.Context, onReload func(error)) {
	if len(e.opts.Dirs) == 0 && e.opts.Workspaces == nil {
		return
	}
	tick := time.NewTicker(WatchInterval)
	defer tick.Stop()
	seen := fingerprint(e.opts)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := fingerprint(e.opts); now != seen {
			seen = now
			if err := e.Reload(ctx, false); err == nil || ctx.Err() == nil {
				onReload(err)
			}
		}
	}
}

// fingerprint changes when a policy file is added, removed or written. What
// cannot be read is part of it, so that its repair is a change as well.
func fingerprint(opts Options) [sha256.Size]byte {
	h := sha256.New()
	for _, dir := range opts.Dirs {
		err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(p) != ".rego" && !isData(p) {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(h, "%q %d %d %s\n", p, info.Size(), info.ModTime().UnixNano(), info.Mode())
			return err
		})
		fmt.Fprintf(h, "%q %v\n", dir, err)
	}
	for _, root := range opts.workspaces() {
		b, err := readInside(root, WorkspaceFile)
		fmt.Fprintf(h, "%q %q %v\n", root, b, err)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
