// Package tools holds the built-in tools, one file each.
//
// A tool is a small value that implements [tool.Tool]: it says what a call would
// touch, and does it only through the [sandbox.Box] it is given. No tool opens a
// file, starts a program or reaches a host by itself, none of them judges, and
// every failure is a [*tool.Error] that tells a model what to do instead.
//
//	registry := tool.NewRegistry(tools.Groups()...)
//
// Adding one is a file here and one element in [Groups]. Guaranteed for each:
// memory and time bounded whatever is on the disk, and nothing half written.
package tools

import "github.com/sandboxd/sandboxd/tool"

// Groups lists every built-in tool. The file tools of one list share what they
// know about who has read which file.
func Groups() []tool.Group {
	seen := newSeen()
	return []tool.Group{
		{Name: "files", Tools: []tool.Tool{Read{seen}, Write{seen}, Edit{seen}, Glob{}, Grep{}, NotebookEdit{seen}}, RulePrompt: filesPrompt},
		{Name: "shell", Tools: []tool.Tool{Bash{}}, RulePrompt: shellPrompt},
	}
}

func filesPrompt([]string) string {
	return "Use the file tools rather than cat, sed, find or grep in a shell: they are checked file by file, " +
		"so that one refused path does not refuse the whole command."
}

func shellPrompt([]string) string {
	return "Commands run in a sandbox: files outside the workspace cannot be written, secrets are not there, and the network is closed unless hosts are allowed. " +
		"When something is refused, the answer says which setting would allow it; trying again does not help."
}
