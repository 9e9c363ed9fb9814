package config

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// ownGroup is a group that this host has.
func ownGroup(t *testing.T) (name string, gid int) {
	t.Helper()
	g, err := user.LookupGroup("root")
	if err != nil {
		needs.Missing(t, "this host has no group root: %v", err)
	}
	gid, err = strconv.Atoi(g.Gid)
	if err != nil {
		t.Fatal(err)
	}
	return g.Name, gid
}

// A group opens its socket, and the group of the operator socket is one of operators.
func TestGroupsOfSockets(t *testing.T) {
	h := newHome(t)
	name, gid := ownGroup(t)
	c, err := h.load("api: {operatorGroup: " + name + ", group: 4242, mode: 0660}\noperators: {gids: [77]}\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.API.AgentGroup(); got != (SocketGroup{"4242", 4242}) || c.API.Mode != withGroup {
		t.Errorf("agents: got %+v, mode %s", got, c.API.Mode)
	}
	if got := c.API.OperatorsGroup(); got != (SocketGroup{name, gid}) || c.API.OperatorMode != withGroup {
		t.Errorf("operators: got %+v, mode %s", got, c.API.OperatorMode)
	}
	if gids := c.Operators.GIDs; len(gids) != 2 || gids[0] != 77 || gids[1] != gid {
		t.Errorf("operators are members of %v", gids)
	}
	c, err = h.load("")
	if err != nil {
		t.Fatal(err)
	}
	if c.API.AgentGroup().Group != "" || c.API.Mode != ownerOnly || c.API.OperatorsGroup().Group != "" {
		t.Errorf("by default a socket is open to %+v", c.API)
	}
}

func TestGroupsAndModesThatCannotBe(t *testing.T) {
	h := newHome(t)
	name, gid := ownGroup(t)
	for _, tt := range []struct{ name, text, want string }{
		{"a group that there is not", "api:\n  group: no-such-group\n", `:2: api.group: this host has no group "no-such-group"`},
		{"an operator group that there is not", "api: {operatorGroup: no-such-group}\n", "api.operatorGroup: this host has"},
		{"a socket for everybody", "api: {group: 5, mode: 0666}\n", "api.mode: 0666: want 0600, or 0660 with api.group"},
		{"a mode that lets in no group", "api: {group: 5, mode: 0600}\n", "0600 keeps out the group"},
		{"a mode that lets in a group without one", "api: {operatorMode: 0660}\n", "api.operatorGroup names none"},
		{"one group for both", "api: {group: 5, operatorGroup: 5}\n", "could approve their own calls"},
		{
			"one group for both, once by its number", fmt.Sprintf("api: {group: %s, operatorGroup: %d}\n", name, gid),
			"could approve their own calls",
		},
		{"a decimal number", "api: {mode: 689}\n", `want a mode in octal digits, such as 0660, not "689"`},
		{"letters", "api: {mode: rw-rw----}\n", "want a mode in octal digits"},
		{"a list", "api: {mode: [0660]}\n", "want a mode in octal digits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := h.load(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	for _, digits := range []string{"0660", "'0660'", "0o660", "660"} {
		if c, err := h.load("api: {group: 5, mode: " + digits + "}\n"); err != nil || c.API.Mode != withGroup {
			t.Errorf("mode %s: %v", digits, err)
		}
	}
}
