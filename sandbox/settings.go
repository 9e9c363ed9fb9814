package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultLimits bound a call that asks for nothing else.
var DefaultLimits = Limits{
	WallSeconds:   120,
	CPUSeconds:    300,
	MemoryBytes:   4 << 30,
	Processes:     1024,
	FileSizeBytes: 2 << 30,
	OpenFiles:     4096,
	OutputBytes:   1 << 20,
	DiskBytes:     2 << 30,
}

// WithDefaults fills what is zero.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits
	return Limits{
		WallSeconds:   or(l.WallSeconds, d.WallSeconds),
		CPUSeconds:    or(l.CPUSeconds, d.CPUSeconds),
		MemoryBytes:   or(l.MemoryBytes, d.MemoryBytes),
		Processes:     or(l.Processes, d.Processes),
		FileSizeBytes: or(l.FileSizeBytes, d.FileSizeBytes),
		OpenFiles:     or(l.OpenFiles, d.OpenFiles),
		OutputBytes:   or(l.OutputBytes, d.OutputBytes),
		DiskBytes:     or(l.DiskBytes, d.DiskBytes),
	}
}

func or[T int | int64](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// nowhere is a write list that allows nothing: an empty list would mean
// everything.
const nowhere = "/proc/sandboxd-nothing"

// Tighten applies what a policy demands. The result never allows what s refuses.
func (s Settings) Tighten(o Obligations) Settings {
	if o.NoNetwork {
		s.Network = Network{AllowedDomains: []string{}}
	}
	if o.ReadOnly {
		s.AllowedWritePaths = []string{nowhere}
	}
	if o.WallSeconds > 0 && (s.Limits.WallSeconds == 0 || o.WallSeconds < s.Limits.WallSeconds) {
		s.Limits.WallSeconds = o.WallSeconds
	}
	return s
}

// Unconfine is what a person may allow a call that asks to leave the sandbox: every
// file but the denied ones. The secrets, the network, the commands and the limits
// stay as they are, and so does the kernel's cage around all of it.
func (s Settings) Unconfine() Settings {
	s.AllowedReadPaths, s.AllowedWritePaths = nil, nil
	return s
}

// HasCommandRules reports whether any list of commands is at stake.
func (s Settings) HasCommandRules() bool {
	return s.AllowedCommands != nil || len(s.DeniedCommands) > 0
}

// HasPathRules reports whether any path is restricted.
func (s Settings) HasPathRules() bool {
	return len(s.AllowedReadPaths)+len(s.AllowedWritePaths)+len(s.DeniedPaths) > 0
}

// Normalise resolves the configured paths, once, at load: absolute and physical,
// so that a linked directory in a list means what it points at. A relative
// path is an error. The warnings name rules that can never matter.
func (s Settings) Normalise() (Settings, []string, error) {
	given := s
	for _, list := range []struct {
		name  string
		paths *[]string
	}{
		{"allowedReadPaths", &s.AllowedReadPaths},
		{"allowedWritePaths", &s.AllowedWritePaths},
		{"deniedPaths", &s.DeniedPaths},
	} {
		resolved, err := normalisePaths(list.name, *list.paths)
		if err != nil {
			return Settings{}, nil, err
		}
		*list.paths = resolved
	}
	trees := ownTrees(append(slices.Clone(given.AllowedWritePaths), s.AllowedWritePaths...))
	var planted, more []string
	s.AllowedWritePaths, planted = unplanted("allowedWritePaths", s.AllowedWritePaths, given.AllowedWritePaths, trees)
	s.AllowedReadPaths, more = unplanted("allowedReadPaths", s.AllowedReadPaths, given.AllowedReadPaths, trees)
	planted = append(planted, more...)
	for _, list := range []struct {
		name  string
		names []string
	}{{"allowedCommands", s.AllowedCommands}, {"deniedCommands", s.DeniedCommands}} {
		for _, n := range list.names {
			if n == "" || strings.ContainsAny(n, " \t\n") {
				return Settings{}, nil, fmt.Errorf("%s: %q is not the name of a program", list.name, n)
			}
		}
	}
	if err := s.Limits.validate(); err != nil {
		return Settings{}, nil, err
	}
	for _, d := range s.Network.AllowedDomains {
		if err := validDomain(d); err != nil {
			return Settings{}, nil, err
		}
	}
	return s, append(s.warnings(), planted...), nil
}

func normalisePaths(name string, paths []string) ([]string, error) {
	if paths == nil {
		return nil, nil
	}
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			return nil, fmt.Errorf("%s: %q is relative; write the absolute path", name, p)
		}
		if p == nowhere {
			out = append(out, p)
			continue
		}
		r, err := resolve(p, "", names{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (l Limits) validate() error {
	for _, v := range []struct {
		name string
		n    int64
	}{
		{"wallSeconds", int64(l.WallSeconds)},
		{"cpuSeconds", int64(l.CPUSeconds)},
		{"memoryBytes", l.MemoryBytes},
		{"processes", int64(l.Processes)},
		{"fileSizeBytes", l.FileSizeBytes},
		{"openFiles", int64(l.OpenFiles)},
		{"outputBytes", l.OutputBytes},
		{"diskBytes", l.DiskBytes},
	} {
		if v.n < 0 {
			return fmt.Errorf("limits.%s: %d is negative", v.name, v.n)
		}
	}
	return nil
}

func (s Settings) warnings() []string {
	var out []string
	if s.AllowedCommands != nil && len(s.DeniedCommands) > 0 {
		out = append(out, "allowedCommands is set, so deniedCommands is ignored") // CX-34
	}
	if s.EnableWeakerNestedSandbox {
		out = append(out, "enableWeakerNestedSandbox changes nothing: a host that cannot hold the sandbox runs no programs, and a weaker rung is chosen and named by itself")
	}
	for name, list := range map[string][]string{"allowedReadPaths": s.AllowedReadPaths, "allowedWritePaths": s.AllowedWritePaths} {
		for _, p := range list {
			for _, d := range s.DeniedPaths {
				if Within(p, d) {
					out = append(out, fmt.Sprintf("%s: %s lies below the denied path %s and can never match", name, p, d))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}
