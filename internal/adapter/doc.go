// Package adapter answers the hooks of other agents: Claude Code, Codex and Gemini.
//
// Such an agent runs its tools itself. Before each call it starts a program, its
// hook, and gives it the call as JSON. Answer translates the call, lets the daemon
// judge it, and writes the answer in the contract of the agent. A shell command
// that is allowed is rewritten so that "sandboxd exec --call ID" runs it, once, in
// the cage. After a call the hook tells the daemon what the agent has done. Install
// puts the hook into the settings of an agent.
//
//	err := adapter.Answer(ctx, client.New(agentSocket), os.Stdin, os.Stdout, adapter.Options{
//		Agent: clients.ClaudeCode, Exe: "/usr/bin/sandboxd",
//	})
//	if err != nil {
//		fmt.Fprintln(os.Stderr, err)
//		os.Exit(adapter.Blocks)
//	}
//
// No failure allows a call: when the daemon does not answer, the input cannot be
// read or the event is unknown, the answer is a denial, a question to the agent's
// own person, or an error that the agent takes as a denial. A tool or an argument
// that the tables do not know is never allowed by this package, and neither is a path
// that an agent may read in another way than it is written.
//
// It does not enforce its answer: the agent does.
package adapter
