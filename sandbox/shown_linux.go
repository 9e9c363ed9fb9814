package sandbox

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

// The cage has its own /tmp, /var/tmp, /home, /root and /run, and shows in them only
// what is listed here. Mounts, file tools and the hiding of sockets and FIFOs all
// ask this one list, so that none of them sees what another does not.

// shown are the paths of the host that these settings show at their own place.
func (c *cage) shown(s Settings) []string {
	out := slices.Concat(s.AllowedReadPaths, s.AllowedWritePaths, c.opts.Roots)
	if len(s.AllowedReadPaths) == 0 && c.opts.Home != "" && c.opts.Home != "/" {
		out = append(out, c.opts.Home)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// private are the directories that the cage has of its own.
var private = []string{"/tmp", "/var/tmp"}

// belowPrivate reports whether a path lies in one of them.
func belowPrivate(path string) bool {
	return slices.ContainsFunc(private, func(p string) bool { return path != p && Within(path, p) })
}

// bound are the writable paths that are the host's: "/tmp" in the list is the cage's
// own.
func bound(write []string) []string {
	return slices.DeleteFunc(slices.Clone(write), func(w string) bool { return slices.Contains(private, w) })
}

// readable leaves of paths the part that the read list lets be read, where a path is
// shown or writable and so readable too: below a private directory, for Landlock's
// right to read that covers what is mounted there, and everywhere on the rung without
// namespaces.
func (c *cage) readable(paths, list []string) []string {
	if len(list) == 0 {
		return paths
	}
	var out []string
	for _, p := range paths {
		if !belowPrivate(p) && !c.bare || slices.ContainsFunc(list, func(r string) bool { return Within(p, r) }) {
			out = append(out, p)
			continue
		}
		for _, r := range list {
			if Within(r, p) {
				out = append(out, r)
			}
		}
	}
	return out
}

// hidden names the place that a path lies in when the cage leaves it empty but for
// what is listed. The directories above that are there, too.
func (b *box) hidden(path string) string {
	if Within(path, child.CacheDir) || Within(path, "/run/current-system") {
		return ""
	}
	for _, empty := range []string{"/home", "/root", "/run"} {
		if !Within(path, empty) {
			continue
		}
		if !slices.ContainsFunc(b.prepared.shown, func(p string) bool { return Within(path, p) || Within(p, path) }) {
			return empty
		}
	}
	return ""
}

// readOnly reports whether a path below a private directory is the host's and may be
// read only, although the list allows to write the directory.
func (b *box) readOnly(path string) bool {
	within := func(p string) bool { return Within(path, p) }
	return belowPrivate(path) && len(b.settings.AllowedWritePaths) > 0 &&
		slices.ContainsFunc(b.prepared.shown, func(p string) bool { return belowPrivate(p) && within(p) }) &&
		!slices.ContainsFunc(bound(b.settings.AllowedWritePaths), within)
}

// maxShownEntries bounds the search for FIFOs, which takes a second for as many.
const maxShownEntries = 1_000_000

// fifos are those of the host in what is shown read-only below a private directory.
// A read-only mount does not keep anybody from writing into a FIFO, and Landlock's
// right to write in the private directory covers what is mounted below it, so each
// is masked. A tree that is too large to be searched is refused.
//
// It is asked once for a template, and walks nothing where no home, no workspace and
// no readable path lies below /tmp or /var/tmp.
func fifos(shown, write, denied []string, most int) ([]string, error) {
	var out []string
	skip := slices.Concat(bound(write), denied)
	room := most
	for i, root := range shown {
		if !belowPrivate(root) || slices.ContainsFunc(shown[:i], func(p string) bool { return belowPrivate(p) && Within(root, p) }) {
			continue
		}
		if err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // neither can a program with the same rights
			}
			if slices.ContainsFunc(skip, func(s string) bool { return Within(p, s) }) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if room--; room < 0 {
				return fmt.Errorf("%s lies below a private directory and holds more than %d files, too many to look for FIFOs; keep it outside of /tmp and /var/tmp, or list in allowedReadPaths what programs need", root, most)
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
