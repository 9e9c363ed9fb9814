package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/approvals"
	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tool"
)

// screen is what the text is laid out for.
type screen struct {
	width  int
	colour bool
}

const (
	ansiBold  = "\x1b[1m"
	ansiRed   = "\x1b[1;31m"
	ansiReset = "\x1b[0m"
)

// renderItem is a question as a person reads it. Everything the model wrote is
// shown in full, with control characters made visible: it cannot draw on the
// terminal.
func renderItem(i approvals.Item, now time.Time, s screen) string {
	var b strings.Builder
	head := map[approvals.Type]string{
		approvals.TypeExecution: "may this call run?",
		approvals.TypeResult:    "may the model see this result?",
		approvals.TypeQuestion:  "the model asks you",
	}[i.Type]
	s.heading(&b, fmt.Sprintf("%s: %s", safeLine(i.Tool), head))
	s.field(&b, "id", i.ID)
	s.field(&b, "session", i.SessionID)
	if i.Description != "" {
		s.field(&b, "tool is", clip(safeLine(i.Description), 200))
	}
	s.args(&b, i.Args)
	if i.Type == approvals.TypeResult {
		s.field(&b, "status", string(i.ResultState))
		s.block(&b, "result", i.Result, false)
	}
	s.facts(&b, i)
	s.why(&b, i.Why)
	s.field(&b, "sandbox", stillStops(i.Facts))
	if i.Waiting > 1 {
		s.field(&b, "calls", fmt.Sprintf("%d equal calls wait for this answer", i.Waiting))
	}
	if i.Status == approvals.StatusPending {
		s.field(&b, "waits", timeLeft(i, now)+" more, then it is refused")
		return b.String()
	}
	s.field(&b, "answer", fmt.Sprintf("%s by %s: %s", i.Status, orDash(i.DecidedBy), i.Reason))
	return b.String()
}

func (s screen) heading(b *strings.Builder, text string) {
	if s.colour {
		text = ansiBold + text + ansiReset
	}
	fmt.Fprintf(b, "== %s\n", text)
}

const labelWidth = 9

// field writes one label and its text, wrapped under itself.
func (s screen) field(b *strings.Builder, label, text string) {
	if text == "" {
		return
	}
	for n, line := range wrap(safeLine(text), s.width-labelWidth-2) {
		if n > 0 {
			label = ""
		}
		fmt.Fprintf(b, "  %-*s%s\n", labelWidth, label, line)
	}
}

func (s screen) list(b *strings.Builder, label string, all []string) {
	for _, text := range all {
		s.field(b, label, text)
		label = ""
	}
}

// args shows each argument, text as text and the rest as JSON.
func (s screen) args(b *strings.Builder, raw json.RawMessage) {
	fields, err := orderedFields(raw)
	if err != nil {
		s.block(b, "args", string(raw), false)
		return
	}
	for _, f := range fields {
		var text string
		if json.Unmarshal(f.value, &text) != nil {
			text = string(f.value)
		}
		s.block(b, f.name, text, f.name == "command")
	}
}

// block writes a text of any length below its label. Marked words have carets
// under them, so that they stand out without colour.
func (s screen) block(b *strings.Builder, label, text string, mark bool) {
	fmt.Fprintf(b, "  %s:\n", safeLine(label))
	for _, line := range strings.Split(text, "\n") {
		line = safeLine(line)
		for _, part := range wrap(line, s.width-4) {
			s.marked(b, part, mark)
		}
	}
}

func (s screen) marked(b *strings.Builder, line string, mark bool) {
	var spans []span
	if mark {
		spans = riskySpans(line)
	}
	if len(spans) == 0 {
		fmt.Fprintf(b, "    %s\n", line)
		return
	}
	var text, carets strings.Builder
	at := 0
	for _, m := range spans {
		word := line[m.start:m.end]
		carets.WriteString(strings.Repeat(" ", utf8.RuneCountInString(line[at:m.start])))
		carets.WriteString(strings.Repeat("^", utf8.RuneCountInString(word)))
		text.WriteString(line[at:m.start])
		if s.colour {
			word = ansiRed + word + ansiReset
		}
		text.WriteString(word)
		at = m.end
	}
	text.WriteString(line[at:])
	fmt.Fprintf(b, "    %s\n    %s\n", text.String(), carets.String())
}

func (s screen) facts(b *strings.Builder, i approvals.Item) {
	f := i.Facts
	for n, c := range f.Commands {
		label := "runs"
		if n > 0 {
			label = ""
		}
		s.field(b, label, commandLine(c))
	}
	for n, o := range f.Opaque {
		label := "unclear"
		if n > 0 {
			label = ""
		}
		s.field(b, label, o.Message)
	}
	s.list(b, "reads", f.Reads)
	s.list(b, "writes", f.Writes)
	s.list(b, "hosts", f.Hosts)
	s.field(b, "from", origins(f.Origins))
	s.field(b, "in", strings.Join(nonEmpty(f.Dir, prefix("mode ", f.Mode), prefix("profile ", f.Profile)), ", "))
}

func (s screen) why(b *strings.Builder, why []tool.Reason) {
	for n, r := range why {
		label := "why"
		if n > 0 {
			label = ""
		}
		s.field(b, label, r.Message+" ("+r.Rule+")")
	}
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

// stillStops says what holds after a yes as well.
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
	hosts := "stops all network but loopback"
	if len(f.Domains) > 0 && !f.Obligations.NoNetwork {
		hosts = "stops all hosts but " + strings.Join(f.Domains, ", ")
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
