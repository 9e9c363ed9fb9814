package review

import (
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/approvals"
)

// help returns what each key does to this question.
func (s Screen) help(item approvals.Item) string {
	var b strings.Builder
	s.heading(&b, "keys")
	add := func(key, text string) { s.field(&b, key, text) }
	switch item.Type {
	case approvals.TypeQuestion:
		add("y", "answer the question, in one line")
		add("n", "do not answer; the line that you type is the reason")
	case approvals.TypeResult:
		add("y", "let the model see the result")
		add("n", "withhold it; the model reads the reason that you type")
	case approvals.TypeConnection:
		add("y", "let this call connect to the host")
		if slices.Contains(item.Remember, approvals.RememberSession) {
			add("s", "let all calls of this session connect to it; shows the rule first")
			add("a", "let all calls in this workspace of this account connect to it; shows the rule first")
		}
		add("n", "refuse it; the call runs on, and the model reads the reason that you type, or none")
	case approvals.TypeChanges:
		add("y", "let the changes stay")
		add("n", "undo them; the model reads the reason that you type, or none")
	default:
		add("y", "run this call, once")
		if slices.Contains(item.Remember, approvals.RememberSession) {
			add("s", "run it, and equal calls of this session unasked; shows the rule first")
			add("a", "run it, and equal calls of every session of this account; shows the rule first")
		}
		add("n", "refuse it; the model reads the reason that you type, or none")
		add("e", "change the arguments, over several lines; what you leave is judged again, then runs")
	}
	add("j k", "next, previous question")
	add("q", "leave; what waits, waits on")
	add("?", "this list")
	return b.String()
}
