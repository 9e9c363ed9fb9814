package team

import (
	"context"
	"fmt"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Join implements [part.Teams].
func (f *feature) Join(ctx context.Context, s tool.Session, name, agent string) error {
	all, err := f.store.Teams(ctx, PlaceOf(s))
	if err != nil {
		return err
	}
	var known []string
	for _, t := range all {
		switch {
		case t.Status != active:
		case t.Name != name && t.ID != name:
			known = append(known, t.Name)
		case agent == "" || t.has(agent):
			return nil
		default:
			_, err := f.store.AddMember(ctx, PlaceOf(s), t.ID, Member{Name: agent})
			return err
		}
	}
	return &tool.Error{
		Code: "team_not_found", Msg: fmt.Sprintf("Team not found: %.100s", name),
		Hint: "active teams are: " + listed(known) + "; make one with TeamCreate",
	}
}

// Of implements [part.Teams].
func (f *feature) Of(ctx context.Context, s tool.Session) (names []string, err error) {
	all, err := f.store.Teams(ctx, PlaceOf(s))
	for _, t := range all {
		if t.Status == active && t.has(PlaceOf(s).Agent) {
			names = append(names, t.Name)
		}
	}
	return names, err
}
