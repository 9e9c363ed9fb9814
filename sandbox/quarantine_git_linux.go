package sandbox

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// What decides what git runs on the host later is write-protected where it exists.
// What a call makes anew, with git init or by hand, is looked at when the call is
// over: what would run is taken away, the rest is named.

// worked are the writable trees that a person works in. Where everything may be
// written, those are the workspaces: who lets a call leave the list of paths does not
// let it decide what runs outside of the cage later.
func (c *cage) worked(s Settings) []string {
	if writeAll(s) {
		return slices.Concat(s.AllowedWritePaths, c.opts.Roots)
	}
	return s.AllowedWritePaths
}

// guarded are the protected paths of the trees that a person works in; what lies in
// the private places of a session nobody runs.
func (b *box) guarded() (git, names []string) {
	trees := slices.DeleteFunc(slices.Clone(b.cage.worked(b.settings)), func(w string) bool { return b.host(w) != w })
	return gitPaths(trees), protectedPaths(trees)
}

// guardedNow are those that exist.
func (b *box) guardedNow() map[string]bool {
	git, names := b.guarded()
	there := map[string]bool{}
	for _, p := range append(git, names...) {
		if exists(p) {
			there[p] = true
		}
	}
	return there
}

// quarantineGit compares with what was there before the call. If something is new,
// later calls get a template that protects it.
func (b *box) quarantineGit(before map[string]bool) []Denial {
	now := b.guardedNow()
	if maps.Equal(before, now) {
		return nil
	}
	var out []Denial
	git, names := b.guarded()
	for i, p := range append(git, names...) {
		if before[p] || !now[p] {
			continue
		}
		delete(now, p) // a path may be on both lists
		if i >= len(git) || !gitFileRuns(p) {
			out = append(out, Denial{Act: "create " + p, Layer: "protected_path_created"})
			continue
		}
		act := fmt.Sprintf("create %s, from which git would run a program outside the sandbox; it was moved to quarantine", p)
		if err := b.moveAway(p); err != nil {
			act = fmt.Sprintf("create %s, from which git would run a program outside the sandbox; it is still there: %v", p, err)
		}
		out = append(out, Denial{Act: act, Layer: "denied_path_created", Setting: "a person has to put " + filepath.Base(p) + " there"})
	}
	b.forgetTemplates()
	return out
}

// forgetTemplates makes the next call look again at what is to be protected.
func (b *box) forgetTemplates() {
	b.prepared.mu.Lock()
	defer b.prepared.mu.Unlock()
	clear(b.prepared.templates)
}
