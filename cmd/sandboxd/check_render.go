package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/shellparse"
)

// showCommand prints a judgement for a person: the verdict, each reason under the
// place in the line, and what the line would do.
func showCommand(out io.Writer, line string, j guard.Judgement) {
	fmt.Fprintln(out, j.Verdict)
	for _, r := range j.Reasons {
		fmt.Fprintf(out, "\n  %s: %s\n", r.Code, r.Message)
		showPlace(out, line, r.At)
		if r.Rule != "" {
			fmt.Fprintf(out, "  rule: %s\n", r.Rule)
		}
		if r.Hint != "" {
			fmt.Fprintf(out, "  hint: %s\n", r.Hint)
		}
	}
	facts := j.CommandAnswer().Facts
	if len(facts.Commands) > 0 {
		fmt.Fprintln(out)
	}
	for _, c := range facts.Commands {
		name := c.Path
		if c.Name == "" {
			name += " (not known)"
		}
		fmt.Fprintf(out, "  runs    %s", strings.TrimSpace(name+" "+strings.Join(c.Args, " ")))
		if len(c.Via) > 0 {
			fmt.Fprintf(out, "   (via %s)", strings.Join(c.Via, ", "))
		}
		fmt.Fprintln(out)
	}
	for _, list := range []struct {
		verb  string
		items []string
	}{{"reads", facts.Reads}, {"writes", facts.Writes}, {"dials", facts.Hosts}} {
		for _, item := range list.items {
			fmt.Fprintf(out, "  %-7s %s\n", list.verb, item)
		}
	}
}

// showPlace prints the line that holds at, with a caret under it.
func showPlace(out io.Writer, text string, at shellparse.Pos) {
	begin, end := int(at.Offset), int(at.End)
	if at.Line == 0 || begin > len(text) {
		return
	}
	start := strings.LastIndexByte(text[:begin], '\n') + 1
	line := text[start:]
	if i := strings.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	from := begin - start
	to := min(max(end-start, from+1), max(len(line), from+1))
	// A long line is shown around the place.
	const width = 100
	if cut := from - width/2; cut > 0 && len(line) > width {
		for cut < len(line) && !utf8.RuneStart(line[cut]) {
			cut++
		}
		line, from, to = "…"+line[cut:], from-cut+len("…"), to-cut+len("…")
	}
	from, to = min(from, len(line)), min(to, max(len(line), from+1))
	marked := 1
	if to <= len(line) {
		marked = max(utf8.RuneCountInString(visible.Text(line[from:to])), 1)
	}
	before := strings.Repeat(" ", utf8.RuneCountInString(visible.Text(line[:from])))
	fmt.Fprintf(out, "    %s\n    %s%s\n", visible.Text(line), before, strings.Repeat("^", marked))
}

func showPath(out io.Writer, path string, op guard.Op, j guard.Judgement) {
	fmt.Fprintf(out, "%s: %s %s\n", j.Verdict, op, path)
	if j.Resolved != "" && j.Resolved != path {
		fmt.Fprintf(out, "  resolved: %s\n", j.Resolved)
	}
	for _, r := range j.Reasons {
		fmt.Fprintf(out, "  %s: %s\n", r.Code, r.Message)
		if r.Rule != "" {
			fmt.Fprintf(out, "  rule: %s\n", r.Rule)
		}
		if r.Hint != "" {
			fmt.Fprintf(out, "  hint: %s\n", r.Hint)
		}
	}
}
