// Package agents starts agents, and knows those of an account: which ones work, which one started which,
// and how much each has used. [Definition] is the part of the daemon.
//
// The tool Agent makes a session below that of its call, or continues one that it made before. The program of
// agents.spawner works in it, and what the program answers is the result of the call. Without such a program the
// call is an error. An agent can go on in the background as a job, and work in a worktree of its own (package
// worktree); teams are in package team.
//
// GET /agents lists them, each after its parent. The tree itself is kept by package sessions: a session
// may have a parent, and never more rights than that. What an agent has used is counted since the daemon
// started, and is forgotten with its session.
package agents
