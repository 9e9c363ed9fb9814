package daemon

import (
	"context"
	"slices"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Idle names the settings that have no effect: because of other settings, in this version, or on the host of the
// backend b.
func (s *Site) Idle(ctx context.Context, b sandbox.Backend) []string {
	free := s.Settings
	free.Require = nil                                      // what is missing is named
	box, err := b.Box(ctx, "/idle", s.Config.Profile, free) // no session has a slash in its id
	if err != nil {
		return append(slices.Clone(s.Config.Warnings), err.Error())
	}
	defer box.Close()
	return slices.Concat(s.Config.Warnings, box.Report().Idle(s.Settings))
}

// Doctor returns the findings of the features about this host, in the order of the list of features. It needs no
// daemon.
func (s *Site) Doctor(ctx context.Context) []part.Finding {
	all := append(s.doctorProjects(), s.doctorDisk())
	for _, f := range s.features {
		if f.Doctor != nil {
			all = append(all, f.Doctor(ctx, s.Config.Parts[f.Name])...)
		}
	}
	return all
}
