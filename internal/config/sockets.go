package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SocketGroup is a group of this host whose members may connect to a socket.
type SocketGroup struct {
	Group string // its name; "" is no group
	GID   int
}

// FileMode is a mode of a file, written in octal digits as for chmod.
type FileMode fs.FileMode

func (m FileMode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// UnmarshalYAML reads the digits as text: YAML would take some of them for decimal numbers.
func (m *FileMode) UnmarshalYAML(n *yaml.Node) error {
	v, err := strconv.ParseUint(strings.TrimPrefix(n.Value, "0o"), 8, 12)
	if n.Kind != yaml.ScalarNode || err != nil {
		return typeErrors(fmt.Sprintf("line %d: want a mode in octal digits, such as 0660, not %q", n.Line, n.Value))
	}
	*m = FileMode(v)
	return nil
}

// MarshalYAML writes the digits that UnmarshalYAML reads.
func (m FileMode) MarshalYAML() (any, error) { return m.String(), nil }

// AgentGroup returns the group whose members may connect to the agent socket, like root and the daemon's own user.
func (a API) AgentGroup() SocketGroup { return groupOf(a.Group) }

// OperatorsGroup returns the group whose members may connect to the operator socket. All of them are operators.
func (a API) OperatorsGroup() SocketGroup { return groupOf(a.OperatorGroup) }

func groupOf(name string) SocketGroup {
	gid, err := groupID(name)
	if err != nil { // checkSockets has refused such a group
		return SocketGroup{}
	}
	return SocketGroup{name, gid}
}

const (
	ownerOnly FileMode = 0o600
	withGroup FileMode = 0o660
)

// settleSockets opens each socket to the group that is named for it.
func (c *Config) settleSockets() {
	for _, s := range []struct {
		key, group string
		mode       *FileMode
	}{{"mode", c.API.Group, &c.API.Mode}, {"operatorMode", c.API.OperatorGroup, &c.API.OperatorMode}} {
		if s.group != "" && c.origin([]string{"api", s.key}) == "default" {
			*s.mode = withGroup
		}
	}
	if gid, err := groupID(c.API.OperatorGroup); err == nil && gid >= 0 {
		c.Operators.GIDs = append(slices.Clone(c.Operators.GIDs), gid)
	}
}

func (c *Config) checkSockets(d *document) error {
	var all []error
	for _, s := range []struct {
		groupKey, modeKey, group string
		mode                     FileMode
	}{
		{"group", "mode", c.API.Group, c.API.Mode},
		{"operatorGroup", "operatorMode", c.API.OperatorGroup, c.API.OperatorMode},
	} {
		_, unknown := groupID(s.group)
		all = append(all, d.errorAt([]string{"api", s.groupKey}, unknown))
		var err error
		switch {
		case s.mode != ownerOnly && s.mode != withGroup:
			err = fmt.Errorf("%s: want 0600, or 0660 with api.%s; nobody else may reach a socket", s.mode, s.groupKey)
		case s.mode == withGroup && s.group == "":
			err = fmt.Errorf("0660 lets in a group, and api.%s names none", s.groupKey)
		case s.mode == ownerOnly && s.group != "":
			err = fmt.Errorf("0600 keeps out the group that api.%s names; leave the mode out, or the group", s.groupKey)
		}
		all = append(all, d.errorAt([]string{"api", s.modeKey}, err))
	}
	agents, operators := c.API.AgentGroup(), c.API.OperatorsGroup() // one of the two may be written as a number
	if agents.Group != "" && operators.Group != "" && agents.GID == operators.GID {
		all = append(all, d.errorAt([]string{"api", "operatorGroup"},
			fmt.Errorf("%q is the group of agents too: they could approve their own calls", operators.Group)))
	}
	return errors.Join(all...)
}

// groupID returns the number of a group, which the file may name by its number too. It is -1 for "".
func groupID(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if n, err := strconv.ParseUint(name, 10, 32); err == nil && n < math.MaxUint32 {
		return int(n), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return -1, fmt.Errorf("this host has no group %q; make it with: groupadd --system %s", name, name)
	}
	return strconv.Atoi(g.Gid)
}
