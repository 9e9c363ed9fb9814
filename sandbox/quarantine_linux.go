package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/later"
	"golang.org/x/sys/unix"
)

// absentDenied returns the denied paths that do not exist, if a program could create them. To hide
// such a path, something would have to be made on the host. So it is checked again when the call
// is over.
func (b *box) absentDenied() []string {
	s := b.prepared.settings
	var out []string
	for _, d := range s.DeniedPaths {
		above := func(w string) bool { return w != d && guard.Within(d, w) }
		writable := len(s.AllowedWritePaths) == 0 || slices.ContainsFunc(s.AllowedWritePaths, above)
		if writable && !exists(b.host(d)) {
			out = append(out, d)
		}
	}
	return out
}

// exists reports whether a path exists. It follows no link.
func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}

// quarantine moves denied paths that a call has created into the private directory of the
// session, and reports them.
func (b *box) quarantine(absent []string) []Denial {
	var out []Denial
	for _, d := range absent {
		if !exists(b.host(d)) {
			continue
		}
		act := "create " + d
		if err := later.Move(b.host(d), b.quarantineDir()); err != nil && exists(b.host(d)) {
			act = fmt.Sprintf("create %s (it is still there: %v)", d, err)
		}
		out = append(out, Denial{Act: act, Layer: "denied_path_created", Setting: "deniedPaths: " + d})
	}
	return out
}

func (b *box) quarantineDir() string {
	return filepath.Join(b.prepared.dir, "quarantine")
}

// quarantineLater does the same with what a call has made for a person's tools.
func (b *box) quarantineLater(before *later.State, began time.Time) []Denial {
	var out []Denial
	for _, c := range b.prepared.trees.Quarantine(before, began, b.quarantineDir()) {
		c.Act = oneLine(c.Act)
		out = append(out, Denial(c))
	}
	return out
}
