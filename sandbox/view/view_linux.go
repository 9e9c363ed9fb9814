package view

import (
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// Options are the same for all sessions of a daemon.
type Options struct {
	Home         string   // the user's home; "": none
	Private      []string // the daemon's own directories and sockets: never shown
	Roots        []string // workspaces: shown at their own paths, also below a private directory
	NoNamespaces bool     // the isolation level without namespaces
}

// View is what the programs of one session see under one set of settings. It is safe for
// concurrent use.
type View struct {
	Shown []string // paths of the host that are shown at their own place
	Env   []string // the environment

	options  Options
	settings guard.Settings
	rules    *guard.Rules
	dir      string   // private directory of the session
	env      []string // as it was given
	masked   atomic.Pointer[masked]
}

// New returns the view for normalised settings and the rules made of them. dir is the
// private directory of the session on the host, which need not exist yet. env is the
// environment of the daemon, as far as it is of use to the user of the view.
func New(o Options, s guard.Settings, rules *guard.Rules, dir string, env []string) *View {
	v := &View{options: o, settings: s, rules: rules, dir: dir, env: env, Env: environment(env, o.Home, s)}
	if o.NoNamespaces {
		v.Env = hostEnvironment(v.Env, dir)
	}
	v.Shown = slices.Concat(s.AllowedReadPaths, s.AllowedWritePaths, o.Roots)
	if len(s.AllowedReadPaths) == 0 && o.Home != "" && o.Home != "/" {
		v.Shown = append(v.Shown, o.Home)
	}
	slices.Sort(v.Shown)
	v.Shown = slices.Compact(v.Shown)
	return v
}

// tmp are the temporary directories that a session has of its own.
var tmp = []string{"/tmp", "/var/tmp"}

// BelowTmp reports whether a path lies below /tmp or /var/tmp.
func BelowTmp(path string) bool {
	return slices.ContainsFunc(tmp, func(p string) bool { return path != p && guard.Within(path, p) })
}

// bound returns the writable paths that are the host's. "/tmp" in the list means the session's own.
func bound(write []string) []string {
	return slices.DeleteFunc(slices.Clone(write), func(w string) bool { return slices.Contains(tmp, w) })
}

// privatePlaces are the directories that a session has of its own, and their names in its
// private directory.
var privatePlaces = []struct{ at, dir string }{{"/tmp", "tmp"}, {"/var/tmp", "vartmp"}, {wire.CacheDir, "cache"}}

// Private reports whether a path lies in a private place of the session. A workspace below
// /tmp does not: it is shown at its own path.
func (v *View) Private(path string) bool {
	for _, own := range privatePlaces {
		if !guard.Within(path, own.at) {
			continue
		}
		return !slices.ContainsFunc(v.Shown, func(shown string) bool {
			return shown != own.at && guard.Within(shown, own.at) && guard.Within(path, shown)
		})
	}
	return false
}

// OnHost returns where a path of the sandbox lies on the host. show is a directory that is
// shown in addition, or "".
func (v *View) OnHost(path, show string) string {
	if show != "" && guard.Within(path, show) || !v.Private(path) {
		return path
	}
	for _, own := range privatePlaces {
		if guard.Within(path, own.at) {
			return filepath.Join(v.dir, own.dir, strings.TrimPrefix(path, own.at))
		}
	}
	return path
}

// MustShow returns the directory in which a call starts if it has to be shown in addition, and
// "" if it is visible anyway or may not be read. The fewer different answers there are, the
// fewer launchers a session needs.
func (v *View) MustShow(dir string) string {
	hides := func(p string) bool { return guard.Within(dir, p) }
	if !slices.ContainsFunc([]string{"/tmp", "/var/tmp", "/run", "/home", "/root"}, hides) {
		return ""
	}
	if slices.Contains(tmp, dir) {
		return ""
	}
	for _, p := range v.Shown {
		if dir == p || !slices.Contains(tmp, p) && guard.Within(dir, p) {
			return ""
		}
	}
	if v.rules.Check(guard.Uses{Paths: []guard.PathUse{{Path: dir, Op: guard.Read}}}) != nil {
		return ""
	}
	return dir
}

// Hidden returns the directory that hides a path, or "". The sandbox shows in it only what
// is in Shown, and the directories above.
func (v *View) Hidden(path string) string {
	if guard.Within(path, wire.CacheDir) || guard.Within(path, "/run/current-system") {
		return ""
	}
	visible := func(p string) bool { return guard.Within(path, p) || guard.Within(p, path) }
	for _, empty := range []string{"/home", "/root", "/run"} {
		if guard.Within(path, empty) && !slices.ContainsFunc(v.Shown, visible) {
			return empty
		}
	}
	return ""
}

// InsideOnly returns the directory above a path that means something else outside of the
// sandbox, or "".
func InsideOnly(path string) string {
	for _, p := range append([]string{"/proc", "/sys", "/dev"}, wire.Overlaid...) {
		if guard.Within(path, p) {
			return p
		}
	}
	return ""
}

// Daemons reports whether a path belongs to the daemon.
func (v *View) Daemons(path string) bool {
	return slices.ContainsFunc(v.options.Private, func(p string) bool { return guard.Within(path, p) })
}

// ReadOnly reports whether a path below /tmp or /var/tmp is the host's and may only be
// read, although the settings allow writing that directory: they mean the session's own.
func (v *View) ReadOnly(path string) bool {
	within := func(p string) bool { return guard.Within(path, p) }
	return BelowTmp(path) && len(v.settings.AllowedWritePaths) > 0 &&
		slices.ContainsFunc(v.Shown, func(p string) bool { return BelowTmp(p) && within(p) }) &&
		!slices.ContainsFunc(bound(v.settings.AllowedWritePaths), within)
}

// Writable returns the directories of the host that a call may write, for measuring. If it may write everywhere,
// those are the private places and dir, where it starts.
func (v *View) Writable(dir string) []string {
	paths := slices.Clone(v.settings.AllowedWritePaths)
	if len(paths) == 0 {
		paths = []string{v.OnHost(dir, "")}
	}
	paths = slices.DeleteFunc(paths, func(p string) bool {
		return slices.Contains(tmp, p) || guard.Within(p, "/dev") || guard.Within(p, "/proc")
	})
	return append(paths, v.Own()...)
}

// Own returns the private directories of the session that its calls may write.
func (v *View) Own() (paths []string) {
	for _, name := range []string{"tmp", "vartmp", "cache", "over"} {
		paths = append(paths, filepath.Join(v.dir, name))
	}
	return paths
}

// Masks returns the sockets of the host that a program would see, if show is shown in addition; for reading only.
// Without namespaces no program can have a socket, so none is masked.
func (v *View) Masks(sockets *Sockets, show string) []string {
	if v.options.NoNamespaces {
		return nil
	}
	roots := slices.Concat(v.settings.AllowedWritePaths, v.options.Roots)
	roots = slices.DeleteFunc(roots, func(p string) bool {
		return p == "/" || p == "/tmp" || p == guard.NoPath || guard.Within(p, "/dev")
	})
	found := sockets.Find(roots)
	if last := v.masked.Load(); last != nil && last.of == found && last.show == show {
		return last.masks
	}
	m := &masked{of: found, show: show}
	for _, p := range found.Paths {
		if v.OnHost(p, show) == p {
			m.masks = append(m.masks, p)
		}
	}
	v.masked.Store(m)
	return m.masks
}

// masked is what was found, and how much of it the sandbox would show.
type masked struct {
	of    *Found
	show  string
	masks []string
}
