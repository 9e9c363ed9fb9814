package cron

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Maker is the process that made a job. Its runs have the rights that it had, and are refused
// if its user has lost some of them.
type Maker struct {
	UID    int    `json:"uid"`
	GID    int    `json:"gid"`
	Groups []int  `json:"groups,omitempty"` // supplementary
	Name   string `json:"name,omitempty"`
	Home   string `json:"home,omitempty"`
	// Given are the groups that the database of users gave the user then; nil if it did not know the user.
	Given []int `json:"given"`
}

// makerOf returns the process of a call.
func makerOf(by tool.Identity) Maker {
	return Maker{by.UID, by.GID, by.Groups, by.Name, by.Home, groupsOf(by.UID)}
}

// groupsOf returns the groups of a user by the database of users; nil if that does not know it.
func groupsOf(uid int) []int {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return nil
	}
	names, _ := u.GroupIds() // without them, the first group alone
	var gids []int
	for _, g := range append(names, u.Gid) {
		if gid, err := strconv.Atoi(g); err == nil {
			gids = append(gids, gid)
		}
	}
	slices.Sort(gids)
	return slices.Compact(gids)
}

// user returns the user with whose rights a run opens files and starts programs. It fails if the maker has lost its
// account, its user or a group since: a run never has more rights than its author has now.
func (m Maker) user(account string, accounts func(uid int) (string, bool)) (sandbox.User, error) {
	if now, ok := accounts(m.UID); !ok || now != account {
		return sandbox.User{}, gone(fmt.Sprintf("uid %d, which made the job, is not of account %s", m.UID, account))
	}
	u := sandbox.NewUser(m.UID, m.GID, m.Groups, m.Name, m.Home)
	if u.ID() == nil { // the daemon, whatever groups the process had
		return u, nil
	}
	now := groupsOf(m.UID)
	if m.Given != nil && now == nil {
		return sandbox.User{}, gone(fmt.Sprintf("uid %d, which made the job, is no user any more", m.UID))
	}
	for _, g := range m.Given {
		if !slices.Contains(now, g) {
			return sandbox.User{}, gone(fmt.Sprintf("uid %d, which made the job, is no longer in group %d", m.UID, g))
		}
	}
	if err := u.Missing(); err != nil {
		if e, ok := errors.AsType[*sandbox.RightsError](err); ok {
			return sandbox.User{}, &tool.Error{Code: "rights_not_taken", Msg: e.Why, Hint: e.Hint}
		}
		return sandbox.User{}, err
	}
	return u, nil
}

func gone(msg string) error {
	return &tool.Error{
		Code: "cron_author_gone", Msg: msg, Hint: "delete the job, and let an agent that has the rights make it again",
	}
}
