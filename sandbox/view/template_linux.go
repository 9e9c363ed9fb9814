package view

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/wire"
)

// Template completes a template that has profile, scratch directory and filters. show is a
// directory to show in addition, or "". kept are paths that must not be written; with
// namespaces each call names them. It makes the directories for caches.
func (v *View) Template(base wire.Template, show string, kept []string) (wire.Template, error) {
	t := v.describe(show)
	t.Profile, t.User, t.Scratch = base.Profile, base.User, base.Scratch
	t.Filter, t.Listen, t.Network = base.Filter, base.Listen, base.Network
	if v.options.NoNamespaces {
		base.NoNamespaces = true
		base.Grants, _ = grants(t, kept)
		return base, nil
	}
	t.Lower = v.lower()
	over, err := overDir(base.Scratch, t)
	if err != nil {
		return wire.Template{}, err
	}
	t.Over = over
	if err := MakeOver(t.Over); err != nil {
		return wire.Template{}, err
	}
	if !t.WriteAll {
		pipes, err := fifos(t.Show, t.Write, t.Denied, maxShownEntries)
		if err != nil {
			return wire.Template{}, err
		}
		t.Denied = append(t.Denied, pipes...)
	}
	return t, nil
}

// describe returns what the settings show and hide.
func (v *View) describe(show string) wire.Template {
	s := v.settings
	shown := slices.Clone(v.Shown)
	if show != "" {
		shown = append(shown, show)
	}
	t := wire.Template{
		Read: s.AllowedReadPaths, Write: v.Readable(s.AllowedWritePaths), WriteAll: WriteAll(s),
		Denied: append(slices.Clone(v.options.Private), s.DeniedPaths...),
		Show:   v.Readable(shown), AllowBind: s.Network.AllowLocalBinding,
	}
	slices.Sort(t.Show)
	// Writable paths are bound by themselves.
	t.Show = slices.DeleteFunc(slices.Compact(t.Show), func(p string) bool { return slices.Contains(t.Write, p) })
	return t
}

// WriteAll reports whether everything may be written that is not denied.
func WriteAll(s guard.Settings) bool {
	return len(s.AllowedWritePaths) == 0 || slices.Contains(s.AllowedWritePaths, "/")
}

// Readable narrows paths to what the list of readable paths allows. Only two kinds need
// it, because a path that is shown or writable there can also be read: paths below /tmp or
// /var/tmp, where Landlock's right to read covers what is mounted, and all paths without
// namespaces.
func (v *View) Readable(paths []string) []string {
	list := v.settings.AllowedReadPaths
	if len(list) == 0 {
		return paths
	}
	var out []string
	for _, p := range paths {
		allowed := func(r string) bool { return guard.Within(p, r) }
		if !BelowTmp(p) && !v.options.NoNamespaces || slices.ContainsFunc(list, allowed) {
			out = append(out, p)
			continue
		}
		for _, r := range list {
			if guard.Within(r, p) {
				out = append(out, r)
			}
		}
	}
	return out
}

// maxShownEntries bounds the search for FIFOs. As many take about a second.
const maxShownEntries = 1_000_000

// fifos returns the FIFOs of the host in trees that are shown read-only below /tmp or
// /var/tmp. Each must be masked: a read-only mount lets a FIFO be written, and Landlock's
// right to write in /tmp covers what is mounted below it. A tree that is too large to
// search is an error. Nothing is walked if no home, workspace or readable path lies there.
func fifos(shown, write, denied []string, most int) ([]string, error) {
	var out []string
	skip := slices.Concat(bound(write), denied)
	room := most
	for i, root := range shown {
		above := func(p string) bool { return BelowTmp(p) && guard.Within(root, p) }
		if !BelowTmp(root) || slices.ContainsFunc(shown[:i], above) {
			continue
		}
		if err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // a program with the same rights cannot read it either
			}
			if slices.ContainsFunc(skip, func(s string) bool { return guard.Within(p, s) }) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if room--; room < 0 {
				return fmt.Errorf("what is shown below the private directories /tmp and /var/tmp holds, up to %s, "+
					"more than %d files, too many to look for FIFOs; keep it outside of them, "+
					"or list in allowedReadPaths what programs need", root, most)
			}
			if d.Type() == fs.ModeNamedPipe {
				out = append(out, p)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return out, nil
}
