// Package adapter answers the hooks of other agents: Claude Code, Codex, Gemini and OpenCode.
//
// Such an agent runs its tools itself. Before each call it starts a program, its hook, and gives it
// the call as JSON. [Answer] translates the call, lets the daemon judge it, and writes the answer
// in the contract of the agent. After a call the hook tells the daemon what the agent has done,
// unless the daemon ran it.
//
//	ctx, stop := context.WithTimeout(ctx, adapter.Timeout) // before the agent gives up
//	err := adapter.Answer(ctx, client.New(agentSocket), os.Stdin, os.Stdout, adapter.Options{
//		Agent: clients.ClaudeCode, Exe: "/usr/bin/sandboxd",
//	})
//	if err != nil {
//		fmt.Fprintln(os.Stderr, err)
//		os.Exit(adapter.Blocks)
//	}
//
// [Install] puts the hook into the settings of agents, [Uninstall] takes it out, and [States] says
// where it is and whether it works. [MCPEntry] does the first two for the entry by which a client
// of MCP starts sandboxd. Without [Installation].Write they only show the change.
//
// An allowed shell command is rewritten to "sandboxd exec --call ID", which runs it once in the
// sandbox. Codex takes no rewrite: there the command runs as it is, in the sandbox of Codex. If the
// agent wants to run a command outside of its sandbox, an allow becomes a question.
//
// No failure allows a call. If the daemon does not answer, the input cannot be read or an event
// with a call is unknown, the answer is a denial, a question to the agent's own person, or an
// error, which the caller must report with the status [Blocks]. An unknown tool is judged by its
// name. An unknown argument of a known tool is a question. A path that an agent may read in another
// way than it is written is a denial. An agent that cannot ask from its hook gets a denial instead
// of a question.
//
// The hook says nothing about an event without a call, and nothing about a call that the tables of
// package clients let pass. The agent then goes on by its own rules. So it does if Answer allows a
// call of Codex, or cannot answer a PermissionRequest with yes or no.
//
// The package does not enforce its answer: the agent does. What an agent's tools mean is in the
// tables of package clients. What its answers look like is in contract.go.
//
// Answer keeps nothing between calls, so an agent may start many hooks at once. If somebody else changes a
// file while Install or Uninstall runs, that file stays, and the error is settings_changed: try again.
//
// Another agent gets a table of its tools (package clients), the names of its events in answer.go and after.go, its
// answers in contract.go, and where its settings lie in install.go; mcp.go has the same for its entry of
// MCP. A failure that must not allow is a row of TestHookNeverAllowsByFailure. make test-clients runs the
// real agents.
package adapter
