package team

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Role is what a member is in a team.
type Role string

// The roles.
const (
	RoleLeader Role = "leader"
	RoleMember Role = "member"
)

// Member is an agent of a team, by its name. It need not have been started.
type Member struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
}

// Team is agents that send each other messages.
type Team struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Task    string   `json:"task_description,omitempty"`
	Members []Member `json:"members"`
	Leader  string   `json:"leader_id"` // who made it; counts as a member
	// LeaderSession is the session that made it, which a name is not: it can be free again. "" in teams of
	// earlier versions.
	LeaderSession string    `json:"leader_session,omitempty"`
	CreatedAt     time.Time `json:"created_at"`
	Status        string    `json:"status"` // active or disbanded

	number int64
}

const (
	active    = "active"
	disbanded = "disbanded"

	maxTeams   = 1000
	maxMembers = 1000
	maxName    = 64 // as the names of agents
)

// has reports whether an agent is in the team.
func (t Team) has(agent string) bool {
	return t.Leader == agent || slices.ContainsFunc(t.Members, func(m Member) bool { return m.Name == agent })
}

// names returns all agents of the team, the leader first.
func (t Team) names() []string {
	names := []string{t.Leader}
	for _, m := range t.Members {
		if m.Name != t.Leader {
			names = append(names, m.Name)
		}
	}
	return names
}

func checkName(what, name string) error {
	if name == "" || name == "*" || len(name) > maxName || !utf8.ValidString(name) ||
		strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl) {
		return bad(fmt.Sprintf("%s: %.80q is no name", what, name),
			fmt.Sprintf("a name has 1 to %d bytes on one line, and is not *", maxName))
	}
	return nil
}

// CreateTeam makes a team of these members, who get mailboxes, led by the agent of p.
func (s *Store) CreateTeam(ctx context.Context, p Place, name, task string, members []string) (Team, error) {
	t := Team{Name: name, Task: task, Members: []Member{}, Leader: p.Agent, LeaderSession: p.Session, Status: active}
	if err := checkName("name", name); err != nil {
		return t, err
	}
	if len(task) > maxText || len(members) > maxMembers {
		return t, bad(
			fmt.Sprintf("the team is too large: %d members, %d bytes of description", len(members), len(task)),
			fmt.Sprintf("at most %d members and %d bytes", maxMembers, maxText))
	}
	for _, m := range members {
		if err := checkName("members", m); err != nil {
			return t, err
		}
		if slices.ContainsFunc(t.Members, func(o Member) bool { return o.Name == m }) {
			return t, bad(fmt.Sprintf("members: %q is there twice", m), "name each agent once")
		}
		t.Members = append(t.Members, Member{m, RoleMember})
	}
	err := s.write(ctx, func(v view) (err error) {
		s.teams.Drop(p.Space)
		if t.number, err = v.next(p.Space, "team"); err != nil {
			return err
		}
		if t.number > maxTeams {
			return &tool.Error{
				Code: "too_many_teams",
				Msg:  fmt.Sprintf("this tree of agents has made %d teams, %d at most", maxTeams, maxTeams),
				Hint: "change the members of one that is there",
			}
		}
		t.ID, t.CreatedAt = fmt.Sprintf("team_%d", t.number), time.UnixMilli(v.now).UTC()
		data, err := json.Marshal(t)
		if err != nil {
			return err
		}
		err = v.Run(`INSERT INTO team_teams (space, number, active, created, data) VALUES ($1, $2, 1, $3, $4)`,
			p.Space, t.number, v.now, string(data))
		for _, name := range t.names() {
			if err == nil {
				err = v.open(p.Space, name)
			}
		}
		return err
	})
	return t, err
}

func scanTeam(row interface{ Scan(...any) error }) (t Team, err error) {
	var data string
	var number int64
	if err := row.Scan(&number, &data); err != nil {
		return t, err
	}
	err = json.Unmarshal([]byte(data), &t)
	t.number = number
	return t, err
}

func (v view) team(space, id string) (Team, error) {
	missing := &tool.Error{
		Code: "team_not_found", Msg: fmt.Sprintf("Team not found: %.100s", id),
		Hint: "ids of teams are team_1, team_2, …",
	}
	n, err := numberOf("team_", id)
	if err != nil {
		return Team{}, missing
	}
	t, err := scanTeam(v.Row(`SELECT number, data FROM team_teams WHERE space = $1 AND number = $2`, space, n))
	if errors.Is(err, sql.ErrNoRows) {
		err = missing
	}
	return t, err
}

// Team returns one team.
func (s *Store) Team(ctx context.Context, p Place, id string) (t Team, err error) {
	err = s.read(ctx, func(v view) error {
		t, err = v.team(p.Space, id)
		return err
	})
	return t, err
}

// Teams returns all teams, by number.
func (s *Store) Teams(ctx context.Context, p Place) (all []Team, err error) {
	all = []Team{}
	err = s.read(ctx, func(v view) error {
		return v.Each(func(rows *sql.Rows) error {
			t, err := scanTeam(rows)
			all = append(all, t)
			return err
		}, `SELECT number, data FROM team_teams WHERE space = $1 ORDER BY number`, p.Space)
	})
	return all, err
}

// of returns the active teams that an agent is in. They are shared: nobody may change them.
func (s *Store) of(v view, space, agent string) ([]Team, error) {
	all, err := s.teams.Get(space, func() (all []Team, err error) {
		err = v.Each(func(rows *sql.Rows) error {
			t, err := scanTeam(rows)
			all = append(all, t)
			return err
		}, `SELECT number, data FROM team_teams WHERE space = $1 AND active = 1 ORDER BY number`, space)
		return all, err
	})
	var mine []Team
	for _, t := range all {
		if t.has(agent) {
			mine = append(mine, t)
		}
	}
	return mine, err
}

// teamsBytes estimates the memory that teams need.
func teamsBytes(all []Team) int {
	n := 0
	for _, t := range all {
		n += 200 + len(t.Name) + len(t.Task)
		for _, m := range t.Members {
			n += 50 + len(m.Name)
		}
	}
	return n
}

// leads reports whether the agent of p made the team, or an operator acts for it.
func (t Team) leads(p Place) bool {
	if p.Operator {
		return true
	}
	if t.LeaderSession != "" {
		return t.LeaderSession == p.Session
	}
	return t.Leader == p.Agent
}

// changeTeam changes a team that is active, for the agent that made it.
func (s *Store) changeTeam(
	ctx context.Context, p Place, id string, change func(view, *Team) error,
) (t Team, err error) {
	err = s.write(ctx, func(v view) error {
		s.teams.Drop(p.Space)
		if t, err = v.team(p.Space, id); err != nil {
			return err
		}
		if !t.leads(p) {
			return &tool.Error{
				Code: "not_the_leader",
				Msg: fmt.Sprintf("Agent '%s' does not lead team %s: '%s' adds and removes its members, and deletes it",
					p.Agent, t.ID, t.Leader),
				Hint: "ask the leader with SendMessage, or make a team of your own with TeamCreate",
			}
		}
		if t.Status != active {
			return &tool.Error{
				Code: "team_disbanded", Msg: "Team already disbanded: " + t.ID,
				Hint: "make another team with TeamCreate",
			}
		}
		if err := change(v, &t); err != nil {
			return err
		}
		data, err := json.Marshal(t)
		if err != nil {
			return err
		}
		is := 0
		if t.Status == active {
			is = 1
		}
		return v.Run(`UPDATE team_teams SET active = $1, data = $2 WHERE space = $3 AND number = $4`,
			is, string(data), p.Space, t.number)
	})
	return t, err
}

// DeleteTeam disbands a team. The team stays, but nobody can join or leave it.
func (s *Store) DeleteTeam(ctx context.Context, p Place, id string) (Team, error) {
	return s.changeTeam(ctx, p, id, func(_ view, t *Team) error {
		t.Status = disbanded
		return nil
	})
}

// AddMember adds an agent to a team, and gives it a mailbox.
func (s *Store) AddMember(ctx context.Context, p Place, id string, m Member) (Team, error) {
	if m.Role == "" {
		m.Role = RoleMember
	}
	if err := checkName("name", m.Name); err != nil {
		return Team{}, err
	}
	if m.Role != RoleMember && m.Role != RoleLeader {
		return Team{}, bad(fmt.Sprintf("role: %.40q is neither leader nor member", m.Role), "")
	}
	return s.changeTeam(ctx, p, id, func(v view, t *Team) error {
		if slices.ContainsFunc(t.Members, func(o Member) bool { return o.Name == m.Name }) {
			return &tool.Error{
				Code: "member_exists", Msg: fmt.Sprintf("Member '%s' is already in team %s", m.Name, t.ID),
				Hint: "each agent is in a team once",
			}
		}
		if len(t.Members) >= maxMembers {
			return bad(fmt.Sprintf("team %s has %d members, %d at most", t.ID, len(t.Members), maxMembers), "")
		}
		t.Members = append(t.Members, m)
		return v.open(p.Space, m.Name)
	})
}

// RemoveMember takes an agent out of a team. The messages in its mailbox stay.
func (s *Store) RemoveMember(ctx context.Context, p Place, id, name string) (Team, error) {
	return s.changeTeam(ctx, p, id, func(_ view, t *Team) error {
		i := slices.IndexFunc(t.Members, func(m Member) bool { return m.Name == name })
		if i < 0 {
			return &tool.Error{
				Code: "member_not_found", Msg: fmt.Sprintf("Member '%.100s' not found in team %s", name, t.ID),
				Hint: "members are: " + listed(t.names()),
			}
		}
		t.Members = slices.Delete(t.Members, i, i+1)
		return nil
	})
}

// listed are names for a message.
func listed(names []string) string {
	const most = 50
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
