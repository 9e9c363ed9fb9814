package pipeline

import (
	"context"
	"fmt"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

// Companions makes the cages of companions. Line returns the current request path.
type Companions struct{ Line func() *Pipeline }

// Settings returns the current settings of a companion.
func (m Companions) Settings(s tool.Session, x tool.Companion) (guard.Settings, error) {
	w, err := m.Line().Workspaces.Of(s.Dir)
	if err != nil {
		return guard.Settings{}, err
	}
	st, err := m.Line().settings(&tool.Call{Target: tool.Target{Session: s, Workspace: w}})
	return x.Settings(st), err
}

// Box returns the box of a companion, and the settings that it has. Its connections are judged by these
// settings and by the rules in force. There is no call that could wait for a person, so a question is a refusal.
func (m Companions) Box(ctx context.Context, s tool.Session, x tool.Companion) (sandbox.Box, guard.Settings, error) {
	st, err := m.Settings(s, x)
	if err != nil {
		return nil, st, err
	}
	box, err := m.Line().Backend.Box(ctx, x.Key(s.ID), s.Profile, st)
	if err != nil {
		return nil, st, fmt.Errorf("make the sandbox of %s: %w", x.Name, err)
	}
	c := tool.Call{
		ID:        x.Key(s.ID),
		Target:    tool.Target{Session: s, Spec: tool.Spec{Name: x.Name, Class: tool.ClassExec}},
		Judgement: tool.Judgement{Settings: st},
		Request:   tool.Request{Account: s.Account, Session: s.ID, Tool: x.Name},
		In:        tool.In{Session: s.ID, Account: s.Account, Dir: s.Dir, Home: s.Home, Args: []byte("{}")},
	}
	return box.Judged(func(ctx context.Context, conn egress.Connection) egress.Verdict {
		return m.Line().companionConnects(ctx, &c, conn)
	}), st, nil
}

// Forget ends the programs in the cage of a companion, and removes its private files.
func (m Companions) Forget(session string, x tool.Companion) error {
	return m.Line().Backend.Forget(x.Key(session))
}

func (p *Pipeline) companionConnects(ctx context.Context, c *tool.Call, conn egress.Connection) egress.Verdict {
	v := egress.Verdict{Rule: "core.connection"}
	err := p.contain(func() error {
		d := p.judgeConnection(ctx, c, conn)
		if d.Verdict == tool.Allow {
			v = egress.Verdict{Allow: true, Rule: firstRule(d), Pace: p.Paces.Of(c.Session.Account)}
			return nil
		}
		v = refusal(d)
		if d.Verdict == tool.Ask {
			v.Reason += "; nobody is asked for a program that lives longer than a call"
			v.Hint = "an operator can list the host in the network of its own settings"
		}
		return nil
	})
	if err != nil {
		v.Reason = err.Error()
	}
	return v
}
