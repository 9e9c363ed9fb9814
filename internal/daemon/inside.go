package daemon

import (
	"errors"
	"maps"
	"os/user"
	"slices"
	"strconv"

	"github.com/sandboxd/sandboxd/internal/idspace"
	"github.com/sandboxd/sandboxd/sandbox"
)

// goInside runs this program again in a namespace that has only the ids of the accounts, and returns when that
// process has ended. If that process asks to be started again, it gets the ids that the configuration names at that
// time.
func (s *Site) goInside() error {
	if err := sandbox.LeaveGroup(); err != nil {
		s.log.Warn("memory of calls is limited for each process only", "error", err)
	}
	now := s
	return idspace.Run(func() (idspace.IDs, error) {
		site := now
		if now = nil; site != nil {
			return site.ids(), nil
		}
		site, err := Load(s.version, s.flags)
		if err != nil {
			return idspace.IDs{}, err
		}
		return site.ids(), nil
	})
}

// errStartAgain ends the daemon so that it starts again with the ids of new accounts.
var errStartAgain = errors.New("the daemon starts again for new accounts")

// startsAgain returns the ids of accounts that a new configuration has and the namespace of this daemon lacks. If no
// call runs, it ends the daemon, which then starts again with these ids.
func (d *daemon) startsAgain(h *Site) (lacking []string, now bool) {
	if d.inside == nil {
		return nil, false
	}
	lacking = d.inside.Lacks(h.ids())
	switch {
	case len(lacking) == 0:
		return nil, false
	case d.line.Load().Running() > 0:
		h.log.Warn("the daemon lacks ids of accounts until it starts again; a reload does that when no call runs",
			"lacking", lacking)
		return lacking, false
	}
	h.log.Info("starting again for new accounts", "lacking", lacking)
	d.stop(errStartAgain)
	return lacking, true
}

// ids returns the ids of the accounts, all their groups, and the groups of the sockets.
func (s *Site) ids() idspace.IDs {
	ids := idspace.IDs{UIDs: slices.Sorted(maps.Keys(s.Config.Accounts.Names))}
	for _, uid := range ids.UIDs {
		ids.GIDs = append(ids.GIDs, groupsOf(uid)...)
	}
	// -1 is none
	ids.GIDs = append(ids.GIDs, s.Config.API.AgentGroup().GID, s.Config.API.OperatorsGroup().GID)
	return ids
}

// groupsOf returns the groups of a user from the user database. A uid without an entry has none: then nobody has
// that uid, or the programs get fewer rights than they could.
func groupsOf(uid int) []int {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return nil
	}
	var gids []int
	names, _ := u.GroupIds() // on an error, the first group alone
	for _, g := range append(names, u.Gid) {
		if gid, err := strconv.Atoi(g); err == nil {
			gids = append(gids, gid)
		}
	}
	return gids
}
