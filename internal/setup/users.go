package setup

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// account is a line of the database of users, and groupLine one of that of groups.
type account struct {
	uid, gid int
	shell    string
}

type groupLine struct {
	gid     int
	members []string
}

// user and group read the files: what has just been made must be seen, also below Host.Root.
func (h Host) user(name string) (account, bool) {
	f, ok := h.line("/etc/passwd", name, 7)
	if !ok {
		return account{}, false
	}
	uid, err := strconv.Atoi(f[2])
	gid, wrong := strconv.Atoi(f[3])
	return account{uid, gid, f[6]}, err == nil && wrong == nil
}

func (h Host) group(name string) (groupLine, bool) {
	f, ok := h.line("/etc/group", name, 4)
	if !ok {
		return groupLine{}, false
	}
	gid, err := strconv.Atoi(f[2])
	members := slices.DeleteFunc(strings.Split(f[3], ","), func(m string) bool { return m == "" })
	return groupLine{gid, members}, err == nil
}

func (h Host) line(file, name string, fields int) ([]string, bool) {
	text, err := os.ReadFile(h.at(file))
	if err != nil {
		return nil, false
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), ":"); len(f) >= fields && f[0] == name {
			return f, true
		}
	}
	return nil, false
}

func (p *Plan) makeGroup(name, why string) {
	h := p.host
	p.add(step{
		kind: Group, name: name, how: "groupadd --system, " + why,
		there: func() (string, error) {
			if g, ok := h.group(name); ok {
				return fmt.Sprintf("gid %d", g.gid), nil
			}
			return "", nil
		},
		do: func(ctx context.Context) error { return h.Run(ctx, "groupadd", "--system", name) },
	})
}

// makeUser makes a user of the system that nobody can log in as.
func (p *Plan) makeUser(name, why string) {
	h := p.host
	p.add(step{
		kind: User, name: name, how: "useradd --system, " + why,
		there: func() (string, error) {
			u, ok := h.user(name)
			_, group := h.group(name)
			switch {
			case !ok && group:
				return "", fmt.Errorf("there is a group of that name and no user; remove it, or make the user with it")
			case !ok:
				return "", nil
			case u.uid == 0:
				return "", fmt.Errorf("it is root by another name")
			}
			return fmt.Sprintf("uid %d", u.uid), nil
		},
		do: func(ctx context.Context) error {
			return h.Run(ctx, "useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent",
				"--shell", "/usr/sbin/nologin", name)
		},
	})
}

func (p *Plan) makeMember(user, group, why string) {
	h := p.host
	p.add(step{
		kind: Member, name: user + " " + group, how: "usermod -aG, " + why,
		there: func() (string, error) {
			if _, ok := h.user(user); !ok {
				return "", fmt.Errorf("this host has no user %q", user)
			}
			if g, ok := h.group(group); ok && slices.Contains(g.members, user) {
				return "a member", nil
			}
			return "", nil
		},
		do: func(ctx context.Context) error { return h.Run(ctx, "usermod", "-a", "-G", group, user) },
	})
}
