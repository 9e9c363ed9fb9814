package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/sandbox/later"
	"github.com/sandboxd/sandboxd/sandbox/launch"
	"github.com/sandboxd/sandboxd/sandbox/view"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// root describes a root directory for a launcher, and what must hold for it to be used again.
type root struct {
	config launch.Config
	absent []string // paths of the settings that did not exist when the root was described
	// writes are paths that programs may write, and placed says which files and directories lay there.
	writes []string
	placed string
	// authority is what programs trust in this root; nil: nothing is intercepted.
	authority *egress.Authority
}

// root returns the root for a call. show is the directory in which the call starts, if it must be
// shown in addition, or "". The root is described again when a path of the settings has appeared, when
// something else lies where programs may write, and when its authority has become old. Without mounts
// it is described for each call, because what is denied or kept depends on what exists now.
func (b *box) root(show string, state *later.State) (root, error) {
	p := b.prepared
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.roots[show]
	if ok && !b.cage.noNamespaces && !r.authority.Stale() && !slices.ContainsFunc(r.absent, exists) &&
		placed(r.writes) == r.placed {
		return r, nil
	}
	t, err := b.cage.template(p, b.profile, show, keptPaths(state))
	if err != nil {
		return root{}, err
	}
	var authority *egress.Authority
	if t.Network && len(p.settings.Network.Intercept) > 0 {
		if p.authority == nil || p.authority.Stale() {
			if p.authority, err = egress.NewAuthority(p.settings.Network); err != nil {
				return root{}, err
			}
		}
		authority, t.Authority = p.authority, p.authority.PEM()
	}
	body, err := json.Marshal(t)
	if err != nil {
		return root{}, err
	}
	r = root{config: launch.Config{Template: body, Replaces: b.cage.noNamespaces}, authority: authority}
	if t.Network {
		r.config.Network = func() launch.Network { return egress.NewNetwork(b.cage.opts.Dialer, callOf) }
	}
	for _, path := range t.Denied {
		r.config.Watch = append(r.config.Watch, p.view.OnHost(filepath.Dir(path), show))
	}
	for _, path := range slices.Concat(t.Read, t.Write, t.Show) {
		if path != guard.NoPath && !exists(path) {
			r.absent = append(r.absent, path)
		}
	}
	// A launcher has bound what lay there when it started. If something appears, or another file takes its place,
	// another launcher is needed.
	r.writes, r.placed = t.Write, placed(t.Write)
	sum := sha256.Sum256(append(body, strings.Join(append(r.absent, r.placed), "\x00")...))
	r.config.Key = b.session + "\x00" + hex.EncodeToString(sum[:])
	r.config.Prepare = func() error {
		if err := makeSessionDir(p.dir); err != nil || t.Over == "" {
			return err
		}
		return view.MakeOver(t.Over)
	}
	if len(p.roots) >= maxPrepared {
		clear(p.roots)
	}
	p.roots[show] = r
	return r, nil
}

// placed returns the identities of the files and directories that lie at these paths.
func placed(paths []string) string {
	var b []byte
	for _, path := range paths {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil {
			b = strconv.AppendUint(append(b, path...), st.Ino, 16)
			b = strconv.AppendUint(append(b, ':'), uint64(st.Dev), 16)
		}
	}
	return string(b)
}

// template describes the root directory of a view.
func (c *cage) template(p *prepared, profile Profile, show string, kept []string) (wire.Template, error) {
	if err := makeSessionDir(p.dir); err != nil {
		return wire.Template{}, err
	}
	base := wire.Template{Profile: profile, Scratch: p.dir, User: p.user.ID()}
	base.Filter, base.Listen = c.filters.For(c.noNamespaces)
	base.Network = p.settings.Network.Reaches() && !c.noNamespaces
	return p.view.Template(base, show, kept)
}

// keptPaths returns the files that programs must not write.
func keptPaths(state *later.State) []string {
	var out []string
	for _, t := range state.Trees {
		for _, k := range t.Kept {
			out = append(out, k.Path)
		}
	}
	return out
}

// keep returns the list of these files for a launcher. Calls share it while nothing changes.
func (p *prepared) keep(state *later.State) []launch.Kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keptOf == state {
		return p.kept
	}
	p.keptOf, p.kept = state, make([]launch.Kept, len(state.Trees))
	for i, t := range state.Trees {
		p.kept[i] = launch.Kept{Root: t.Root, Version: t.Generation, Paths: make([]wire.Kept, len(t.Kept))}
		for j, k := range t.Kept {
			p.kept[i].Paths[j] = wire.Kept{Path: []byte(k.Path), Pins: k.Pins}
		}
	}
	return p.kept
}
