package tool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Root returns the session at the top of the tree that a session belongs to: itself, if no agent started it. A tree
// shares tasks, teams and mailboxes.
func (s Session) Root() string {
	if n := len(s.Above); n > 0 {
		return s.Above[n-1].ID
	}
	return s.ID
}

// Under returns the session as one below these, the nearest first: mode and profile are the
// strictest of all.
func (s Session) Under(above []Session) Session {
	s.Above = above
	for _, up := range above {
		if s.Mode.LooserThan(up.Mode) {
			s.Mode = up.Mode
		}
		if up.Profile == sandbox.ProfileStrict {
			s.Profile = up.Profile
		}
	}
	return s
}

// spawners are the names of the tool that starts agents. No agent that was started has it.
var spawners = []string{"Agent", "Task"}

// May reports whether the agents that started a session let it have a tool. Whether they have it
// themselves is another question.
func (s Session) May(tool string) bool {
	if s.Parent != "" && (slices.Contains(spawners, tool) || len(s.Only) > 0 && !names(s.Only, tool)) ||
		names(s.Without, tool) {
		return false
	}
	return !slices.ContainsFunc(s.Above, func(up Session) bool { return !up.May(tool) })
}

// MayHave is [Session.May] of a tool that every session has as soon as it has any other.
func (s Session) MayHave(tool string) bool {
	return !names(s.Without, tool) &&
		!slices.ContainsFunc(s.Above, func(up Session) bool { return names(up.Without, tool) })
}

func names(list []string, tool string) bool {
	return slices.ContainsFunc(list, func(n string) bool { return strings.EqualFold(n, tool) })
}

var agentName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_ .-]{0,63}$`)

// CheckAgent reports what is wrong with the name of an agent.
func CheckAgent(name string) error {
	if strings.EqualFold(name, "self") {
		return &Error{
			Code: "validation_error", Msg: fmt.Sprintf("agent: %q is the agent at the top of its tree", name),
			Hint: "choose another name",
		}
	}
	if agentName().MatchString(name) {
		return nil
	}
	msg := fmt.Sprintf("agent: %.80q is not a name of an agent", name)
	if name == "" {
		msg = "agent is missing: a session with a parent needs the name of its agent"
	}
	return &Error{
		Code: "validation_error", Msg: msg,
		Hint: "a name has at most 64 letters, digits, blanks, dots, - and _, and begins with a letter or a digit",
	}
}

// Identity is a process that calls, as the kernel described it.
type Identity struct {
	UID, GID   int
	Groups     []int // supplementary
	Name, Home string
}

// Actor is the agent for which the daemon runs a program; requests of the program count as the agent's.
type Actor struct {
	Identity
	Account, Session string
}

// AgentProgram is a program of the operator's that runs an agent.
type AgentProgram struct {
	Argv    []string
	PassEnv []string // variables of the daemon that it gets, beside those of hooks
	Stdin   []byte
	As      Actor  // its requests to the daemon are those of this agent
	Started func() // called once it runs
}

// ErrAtOnce is a cause by which such a program ends without a grace.
var ErrAtOnce = errors.New("its session was deleted")

// Ancestor is a session above another one, as people and records name it.
type Ancestor struct {
	Session string `json:"session_id"`
	Agent   string `json:"agent,omitempty"`
}

// Ancestors returns the sessions above, the nearest first.
func (s Session) Ancestors() []Ancestor {
	var all []Ancestor
	for _, up := range s.Above {
		all = append(all, Ancestor{up.ID, up.Agent})
	}
	return all
}
