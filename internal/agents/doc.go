// Package agents knows the agents of an account: which ones work, which one started which, and how much
// each has used.
//
// GET /agents lists them, each after its parent. The tree itself is kept by package sessions: a session
// may have a parent, and never more rights than that. What an agent has used is counted since the daemon
// started, and is forgotten with its session.
package agents
