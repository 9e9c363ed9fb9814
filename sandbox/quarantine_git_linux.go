package sandbox

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/sandbox/child"
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

// protected are the paths that programs and file tools must not write though they lie
// in a writable tree.
func (c *cage) protected(s Settings, git []string) []string {
	trees := c.worked(s)
	return withTargets(slices.Concat(protectedPaths(trees), gitPaths(trees), git), trees)
}

// guarded are the protected paths of the trees that a person works in; what lies in
// the private places of a session nobody runs.
func (b *box) guarded(l looker) (git, names []string) {
	trees := b.cage.worked(b.settings)
	trees = slices.DeleteFunc(slices.Clone(trees), func(w string) bool { return b.host(w) != w })
	return slices.Concat(l.gitPaths(trees), b.gitMore()), protectedPaths(trees)
}

// guardedNow are those that exist, with the links that lead to each: a program may
// put one of its own in the place of another, or of a directory. The answer is shared
// by the calls between which nothing changes there.
func (b *box) guardedNow() map[string]string {
	p := b.prepared
	p.looking.Lock()
	defer p.looking.Unlock()
	if p.guarded == nil || !p.lookedAt.Unchanged() {
		p.lookedAt = &child.Places{}
		p.guarded = b.lookGuarded(looker{p.lookedAt})
	}
	return p.guarded
}

func (b *box) lookGuarded(l looker) map[string]string {
	git, names := b.guarded(l)
	there := map[string]string{}
	for _, p := range append(git, names...) {
		if l.exists(p) {
			there[p] = "there" + l.links(p, b.cage.worked(b.settings))
		}
	}
	return there
}

// links are those in a path below the writable trees, and where they lead.
func (l looker) links(path string, trees []string) string {
	var out strings.Builder
	for ; path != "/" && !slices.Contains(trees, path); path = filepath.Dir(path) {
		if to, err := l.readlink(path); err == nil {
			fmt.Fprintf(&out, " %s -> %s", path, to)
		}
	}
	return out.String()
}

// quarantineGit compares with what was there before the call. What is new is protected
// from the calls that begin now.
func (b *box) quarantineGit(before map[string]string) []Denial {
	now := b.guardedNow()
	if maps.Equal(before, now) {
		return nil
	}
	now = maps.Clone(now) // others may be given the same
	var out []Denial
	git, names := b.guarded(looker{})
	for i, p := range append(git, names...) {
		if now[p] == "" || before[p] == now[p] {
			continue
		}
		delete(now, p) // a path may be on both lists
		if i >= len(git) || !gitFileRuns(p) {
			out = append(out, Denial{Act: "create " + p, Layer: "protected_path_created"})
			continue
		}
		act := fmt.Sprintf("create %s, from which git would run a program outside the sandbox; it was moved to quarantine", p)
		from := p
		if to := withTargets([]string{p}, b.cage.worked(b.settings)); len(to) > 1 {
			from = to[1] // the link may be a person's
		}
		if err := b.moveAway(from); err != nil && exists(p) {
			act = fmt.Sprintf("create %s, from which git would run a program outside the sandbox; it is still there: %v", p, err)
		}
		out = append(out, Denial{Act: act, Layer: "denied_path_created", Setting: "a person has to put " + filepath.Base(p) + " there"})
	}
	return out
}

// gitMore is [gitMore] as it was before the calls: what they make further down, a test
// with its repositories, they may remove again.
func (b *box) gitMore() []string { return b.prepared.gitMore(b.cage) }

func (p *prepared) gitMore(c *cage) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gitKnown == nil {
		p.gitKnown = append([]string{}, gitMore(c.worked(p.settings))...)
	}
	return p.gitKnown
}
