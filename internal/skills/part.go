package skills

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/events"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Definition defines skills as a part of the daemon.
func Definition() part.Definition {
	return part.Definition{
		Name:     "skills",
		Config:   func() part.Config { return &Config{Dirs: []string{}, Names: []string{}} },
		Open:     open,
		Describe: func(c part.Config) part.Part { return described(c).part() },
	}
}

// feature provides skills in a daemon.
type feature struct {
	host    part.Host
	home    string
	config  atomic.Pointer[Config]
	library Library

	mu    sync.Mutex      // guards begun
	begun map[string]bool // calls of Skill that have not ended and whose skill was pushed
}

func open(_ context.Context, h part.Host) (part.Part, error) {
	f := described(h.Config)
	f.host = h
	return f.part(), nil
}

// described returns a feature that can list skills but cannot run them.
func described(c part.Config) *feature {
	f := &feature{begun: map[string]bool{}}
	f.home, _ = os.UserHomeDir() // without a home directory there are no skills of the user
	f.config.Store(c.(*Config))
	f.host.Roots = func() []string { return nil }
	return f
}

func (f *feature) part() part.Part {
	return part.Part{
		Groups: []catalog.Group{{Name: "skills", Tools: []tool.Tool{skillTool{f}}, Lists: f.lists}},
		Routes: f.routes(),
		Ended:  f.ended,
		Reload: func(_ context.Context, c part.Config) { f.config.Store(c.(*Config)) },
	}
}

// where returns the places of the skills of a session. They are read with the rights of user.
func (f *feature) where(user sandbox.User) Places {
	c := f.config.Load()
	return Places{
		Home: f.home, Dirs: c.Dirs, Names: c.Names, Workspace: c.Workspace, Roots: f.host.Roots(), User: user,
	}
}

// set returns the skills of a session. They are read with the rights of the daemon.
func (f *feature) set(dir string) Set { return f.library.Of(dir, f.where(sandbox.Daemon())) }

// lists returns the text about a session's skills for the system prompt.
func (f *feature) lists(s tool.Session) string {
	if list := f.set(s.Dir).List(); list != "" {
		return "Skills that Skill begins, by name:\n" + list
	}
	return ""
}

// maxDepth bounds the skills that run within each other in a session (K-19).
const maxDepth = 4

// push puts a skill on the stack of a session.
func (f *feature) push(ctx context.Context, in tool.In, k Skill) (tool.Session, error) {
	s, err := f.host.Sessions.Patch(ctx, in.Account, in.Session, func(s *tool.Session) error {
		if len(s.Skills) >= maxDepth {
			return &tool.Error{
				Code: "skill_too_deep", Msg: "4 skills run in this session, each within another, which is the most",
				Hint: fmt.Sprintf("the client ends the innermost with POST /sessions/%s/skills/end", s.ID),
			}
		}
		s.Skills = append(slices.Clone(s.Skills), tool.Skill{
			Name: k.Name, Tools: k.ToolRestrictions, Model: val(k.Model), Call: in.CallID,
			Within: k.Source == Workspace || f.config.Load().StrictNesting,
		})
		return nil
	})
	if err == nil {
		f.mu.Lock()
		f.begun[in.CallID] = true
		f.mu.Unlock()
		f.changed(s)
	}
	return s, err
}

// ended removes a skill from the stack if its call failed in the end, because its result was withheld or its end
// could not be recorded.
func (f *feature) ended(c *tool.Call) {
	f.mu.Lock()
	runs := f.begun[c.ID]
	delete(f.begun, c.ID)
	f.mu.Unlock()
	if !runs || c.Result.Status == tool.StatusSuccess {
		return
	}
	s, err := f.host.Sessions.Patch(context.Background(), c.Session.Account, c.Session.ID, func(s *tool.Session) error {
		s.Skills = slices.DeleteFunc(slices.Clone(s.Skills), func(k tool.Skill) bool { return k.Call == c.ID })
		return nil
	})
	if err != nil {
		f.host.Log.Error("a skill runs on although its call failed", "session", c.Session.ID, "error", err)
		return
	}
	f.changed(s)
}

// changed notifies clients that other tools of the session can be called now.
func (f *feature) changed(s tool.Session) {
	f.host.Events.Publish(events.Event{Type: events.SessionChanged, Account: s.Account, Session: s.ID})
}

// pop removes the innermost skill from the stack of a session. Without one it does nothing (K-22).
func (f *feature) pop(ctx context.Context, account, session string) (ended string, s tool.Session, err error) {
	s, err = f.host.Sessions.Patch(ctx, account, session, func(s *tool.Session) error {
		if n := len(s.Skills); n > 0 {
			ended, s.Skills = s.Skills[n-1].Name, slices.Clone(s.Skills[:n-1])
		}
		return nil
	})
	if err == nil && ended != "" {
		f.changed(s)
	}
	return ended, s, err
}
