package policy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

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
