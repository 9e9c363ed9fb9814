// Package agents starts agents, and knows those of an account: which ones work, which one started
// which, and how much each has used. It is a part of the daemon:
//
//	p, err := agents.Definition().Open(ctx, host) // host.Config is a *agents.Config
//	p.Groups // the tool Agent, which starts an agent
//	p.Routes // GET /agents
//
// The daemon calls p.Ended when a call has ended, and p.Forget when a session was deleted. Forget
// ends the agent of the session and waits for its end.
//
// The tool Agent makes a session below that of its call, or continues one that it made before. The
// program of agents.spawner works in it, and what it answers is the result of the call. The
// call is an error if there is no such program, if the program fails, if no process made the call,
// if a hook blocks the agent, or if an agent works in that session already. An agent can go on in
// the background as a job, and work in a worktree of its own (package worktree). That is removed at
// the end if nothing in it was changed. Teams are in package team.
//
// GET /agents lists the sessions of the caller's account, each after its parent. The tree itself is
// kept by package sessions: a session may have a parent, and never more rights than that. What an
// agent has used is counted since the daemon started, and is forgotten with its session.
//
// docs/agents.md describes all of this for authors of harnesses, with what the program of
// agents.spawner reads and writes.
//
// What happens around a run of an agent belongs in run.go; what the tool takes, in tool.go; a type of
// agents that is built in, in builtIn of config.go.
package agents
