package review

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/visible"
	"github.com/sandboxd/sandboxd/shellparse"
)

// Screen is the screen that text is laid out for.
type Screen struct {
	Width    int
	Colour   bool
	Terminal bool // if false, lines may be longer than the screen
}

// Bold, Red, Yellow and Dim colour a text. The words must say the same without the colour.
func (s Screen) Bold(text string) string   { return s.paint(visible.Bold, text) }
func (s Screen) Red(text string) string    { return s.paint(visible.Red, text) }
func (s Screen) Yellow(text string) string { return s.paint(visible.Yellow, text) }
func (s Screen) Dim(text string) string    { return s.paint(visible.Dim, text) }

func (s Screen) paint(colour, text string) string {
	if !s.Colour || strings.TrimSpace(text) == "" {
		return text
	}
	return colour + text + visible.Plain
}

// Render returns a question as a person reads it: see the package doc for what of the model's text is shown. Control
// characters become escapes, so the model cannot draw on the terminal.
func Render(i approvals.Item, now time.Time, s Screen) string {
	var b strings.Builder
	s.heading(&b, visible.Text(Heading(i)))
	for _, f := range Fields(i, now) {
		if f.Block {
			s.block(&b, f)
		} else {
			s.field(&b, f.Label, f.Text)
		}
	}
	return b.String()
}

// Gone says what an answer does if the caller of the question does not wait any more.
const Gone = "its caller is gone; nothing runs until it calls again"

// callerGone reports whether the caller of a question in a queue does not wait any more.
func callerGone(i approvals.Item) bool {
	return i.Waiting == 0 && i.Status == approvals.StatusPending && !i.ExpiresAt.IsZero()
}

func (s Screen) heading(b *strings.Builder, text string) {
	fmt.Fprintf(b, "== %s\n", s.Bold(text))
}

const labelWidth = 9

func (s Screen) field(b *strings.Builder, label, text string) { s.Row(b, label, labelWidth, text) }

// Row writes a label in so many columns, and beside it the text, wrapped to its own column. If the text is empty, it
// writes nothing.
func (s Screen) Row(b *strings.Builder, label string, columns int, text string) {
	if text == "" {
		return
	}
	for n, line := range wrap(visible.Text(text), s.Width-columns-2) {
		if n > 0 {
			label = ""
		}
		fmt.Fprintf(b, "  %-*s%s\n", columns, label, line)
	}
}

// block writes a text of any length below its label. Risky words have carets below them, so that they are visible
// without colour.
func (s Screen) block(b *strings.Builder, f Field) {
	fmt.Fprintf(b, "  %s:\n", visible.Text(f.Label))
	for _, line := range strings.Split(f.Text, "\n") {
		line = visible.Text(line)
		for _, part := range wrap(line, s.Width-4) {
			s.marked(b, part, f.Marked)
		}
	}
}

func (s Screen) marked(b *strings.Builder, line string, mark bool) {
	words := []Word{{Text: line}}
	if mark {
		words = Words(line)
	}
	var text, carets strings.Builder
	under := 0 // columns up to the last caret
	for _, w := range words {
		below, shown := " ", w.Text
		if w.Risky {
			below, shown = "^", s.Red(w.Text)
		}
		text.WriteString(shown)
		carets.WriteString(strings.Repeat(below, utf8.RuneCountInString(w.Text)))
		if w.Risky {
			under = carets.Len()
		}
	}
	fmt.Fprintf(b, "    %s\n", text.String())
	if under > 0 {
		fmt.Fprintf(b, "    %s\n", carets.String()[:under])
	}
}

// binds returns lines that say to which files the answer is bound, and what is not bound.
func binds(f approvals.Facts) []string {
	var all, absent []string
	for _, file := range f.Bound {
		if file.Absent {
			absent = append(absent, file.Path)
			continue
		}
		all = append(all, fmt.Sprintf("%s (%d bytes, sha256 %.12s…)", file.Path, file.Bytes, file.Sum))
	}
	if len(absent) > 0 {
		all = append(all, "absent, and stays so: "+strings.Join(absent, ", "))
	}
	for _, text := range f.NotBound {
		all = append(all, "not bound: "+text)
	}
	return all
}

func commandLine(c shellparse.Command) string {
	words := []string{c.Name}
	if c.Name == "" {
		words[0] = "(unknown program)"
	}
	for _, a := range c.Args {
		words = append(words, a.Text)
	}
	line := strings.Join(words, " ")
	if len(c.Via) > 0 {
		line += "   (via " + strings.Join(c.Via, ", ") + ")"
	}
	return line
}

// stillStops says what may still refuse the call after a yes.
func stillStops(f approvals.Facts) string {
	if f.Class == "" {
		return ""
	}
	writes := "writes are not limited to directories"
	switch {
	case f.Obligations.ReadOnly:
		writes = "stops every write"
	case len(f.WritePaths) > 0:
		writes = "stops writes outside " + strings.Join(f.WritePaths, ", ")
	}
	hosts := "stops all network except loopback"
	switch listed := strings.Join(f.Domains, ", "); {
	case f.Obligations.NoNetwork:
	case f.Unlisted == guard.UnlistedAsk && listed == "":
		hosts = "asks before it connects to a host"
	case f.Unlisted == guard.UnlistedAsk:
		hosts = "asks before it connects to a host other than " + listed
	case listed != "":
		hosts = "stops all hosts except " + listed
	}
	return writes + "; " + hosts
}

func origins(o tool.Origins) string {
	seen := map[tool.Origin]bool{}
	var all []string
	add := func(list []tool.Origin) {
		for _, x := range list {
			if !seen[x] {
				seen[x] = true
				all = append(all, string(x))
			}
		}
	}
	add(o.Session)
	for _, list := range o.Args {
		add(list)
	}
	return strings.Join(all, ", ")
}

// agentOf returns the name of the agent that asks, and of the agents that it works for.
func agentOf(i approvals.Item) string {
	text := i.Agent
	for _, up := range i.Parents {
		text += ", started by " + cmp.Or(up.Agent, up.Session)
	}
	return text
}
