package front_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/internal/skills/front"
)

func Example() {
	m := front.Parse("---\nname: commit\ndescription: |\n  Writes a commit message.\n  Use when changes are staged.\n" +
		"argument-hint: [message] [files]\nallowed-tools: Bash(git diff:*), Read\n---\nThe text.\n")
	fmt.Printf("%s, %q\n", m.Text("name"), m.Text("description"))
	fmt.Println(m.Text("argument-hint"))
	f, _ := m.Get("allowed-tools", "allowed_tools")
	fmt.Printf("%q, line %d\n", f.List(true), f.Line)
	fmt.Printf("%q, line %d\n", m.Body, m.Line)
	// Output:
	// commit, "Writes a commit message.\nUse when changes are staged."
	// [message] [files]
	// ["Bash(git diff:*)" "Read"], line 7
	// "The text.\n", line 9
}
