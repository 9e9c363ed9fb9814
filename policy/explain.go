package policy

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/shellparse"
)

// Explanation is why a call is judged as it is.
type Explanation struct {
	Decision tool.Decision   `json:"decision"`
	Input    json.RawMessage `json:"input,omitempty"` // what the rules saw
	Findings []Finding       `json:"findings"`        // in the order of their packages, those without effect included
	Note     string          `json:"note,omitempty"`  // why something is missing
	Nearest  string          `json:"nearest,omitempty"`
}

// PrintDecision writes a decision for people: the verdict, what decided, then each
// reason with its place and hint. text is the command line, or "".
func PrintDecision(w io.Writer, d tool.Decision, text string) {
	fmt.Fprintf(w, "%s, decided by %s", d.Verdict, decider(d))
	if d.Revision != "" {
		fmt.Fprintf(w, " (policy revision %s)", d.Revision)
	}
	fmt.Fprintln(w)
	for _, r := range d.Reasons {
		fmt.Fprintf(w, "  %s: %s\n", r.Rule, r.Message)
		if r.At != nil {
			printPlace(w, text, *r.At)
		}
		if r.Hint != "" {
			fmt.Fprintf(w, "    hint: %s\n", r.Hint)
		}
	}
	o := d.Obligations
	if o.NoNetwork {
		fmt.Fprintln(w, "  on condition: no network")
	}
	if o.ReadOnly {
		fmt.Fprintln(w, "  on condition: nothing is written")
	}
	if o.WallSeconds > 0 {
		fmt.Fprintf(w, "  on condition: ends within %d s\n", o.WallSeconds)
	}
	if d.Args != nil {
		fmt.Fprintf(w, "  rewritten to: %s\n", d.Args)
	}
}

// printPlace underlines a part of the command line.
func printPlace(w io.Writer, text string, at shellparse.Pos) {
	if at.Offset < 0 || int(at.End) > len(text) || at.Offset >= at.End || strings.ContainsAny(text, "\n\t") {
		fmt.Fprintf(w, "    at line %d, column %d\n", at.Line, at.Col)
		return
	}
	before := len([]rune(text[:at.Offset]))
	under := len([]rune(text[at.Offset:at.End]))
	fmt.Fprintf(w, "    %s\n    %s%s\n", text, strings.Repeat(" ", before), strings.Repeat("^", under))
}

// decider names what decided: the first reason, as its layer calls it.
func decider(d tool.Decision) string {
	if len(d.Reasons) == 0 {
		return "nothing, which denies"
	}
	id := d.Reasons[0].Rule
	_, name, _ := strings.Cut(id, ":")
	switch d.By {
	case tool.ByRule:
		return "the rule " + id
	case tool.ByMode:
		return "mode " + name
	case tool.ByFloor:
		return "the sandbox settings: " + strings.TrimPrefix(id, "floor:") // of a connection the setting is the rule
	case tool.ByTool:
		return "the permission of the tool: " + name
	case tool.ByHook:
		return "a hook"
	}
	return id
}

// maxNearest bounds the search for a change that would be allowed.
const maxNearest = 50

// Change is a small change of a call.
type Change struct {
	Args json.RawMessage
	Mode tool.Mode
	What string // "without --force"
}

// Nearest returns the first of the small changes of c that allowed accepts, of 50 at most, or "". The changes leave
// out one option of a command line, then another word, then a command; the last are looser modes, except the one
// that asks nobody. Each is a call of its own, which must be judged as a whole.
func Nearest(c *tool.Call, allowed func(Change) bool) string {
	tried := map[string]bool{}
	for change := range changes(c) {
		key := string(change.Mode) + " " + string(change.Args)
		if tried[key] {
			continue
		}
		if tried[key] = true; len(tried) > maxNearest {
			break
		}
		if allowed(change) {
			return change.What
		}
	}
	return ""
}

func changes(c *tool.Call) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for line := range shorter(c) {
			args, err := withCommand(c.In.Args, line.text)
			if err == nil && !yield(Change{Args: args, Mode: c.Session.Mode, What: line.what}) {
				return
			}
		}
		for _, mode := range tool.Modes {
			change := Change{Args: c.In.Args, Mode: mode, What: "in mode " + string(mode)}
			if mode != tool.ModeBypassPermissions && mode.LooserThan(c.Session.Mode) && !yield(change) {
				return
			}
		}
	}
}

type shorterLine struct{ text, what string }

// shorter leaves one part after the other out of the command line of c.
func shorter(c *tool.Call) iter.Seq[shorterLine] {
	return func(yield func(shorterLine) bool) {
		var args struct {
			Command string `json:"command"`
		}
		s := c.Facts.Uses.Script
		if s == nil || json.Unmarshal(c.In.Args, &args) != nil {
			return
		}
		line := args.Command
		for _, options := range []bool{true, false} {
			for _, cmd := range s.Commands {
				for _, w := range slices.Backward(cmd.Args) { // what comes later qualifies
					before, part, after, ok := cut(line, w.At)
					if !ok || strings.HasPrefix(w.Text, "-") != options {
						continue
					}
					text := strings.TrimRight(before, " ") + after
					if !yield(shorterLine{text, fmt.Sprintf("without %q in %q", part, commandText(cmd))}) {
						return
					}
				}
			}
		}
		for _, cmd := range s.Commands {
			before, part, after, ok := cut(line, cmd.At)
			if !ok || len(s.Commands) == 1 {
				continue
			}
			what := fmt.Sprintf("without %q", part)
			if !yield(shorterLine{trimOperator(before, strings.TrimSuffix) + after, what}) ||
				!yield(shorterLine{before + trimOperator(after, strings.TrimPrefix), what}) {
				return
			}
		}
	}
}

// cut parts line at a place, which may be one of an inner text: then nothing is
// cut, since the offsets count from elsewhere only if they do not fit.
func cut(line string, at shellparse.Pos) (before, part, after string, ok bool) {
	if at.Offset < 0 || at.End <= at.Offset || int(at.End) > len(line) {
		return "", "", "", false
	}
	return line[:at.Offset], line[at.Offset:at.End], line[at.End:], true
}

// trimOperator takes the operator off that joined a command which is gone.
func trimOperator(text string, trim func(s, fix string) string) string {
	text = strings.TrimSpace(text)
	for _, op := range []string{"&&", "||", "|&", "|", ";", "&"} {
		if t := trim(text, op); t != text {
			return t
		}
	}
	return text
}

// withCommand is args with another command line.
func withCommand(args json.RawMessage, line string) (json.RawMessage, error) {
	b, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		return nil, err
	}
	return mergePatch(args, b)
}

func commandText(c shellparse.Command) string {
	words := []string{c.Name}
	for _, w := range c.Args {
		words = append(words, w.Text)
	}
	return strings.Join(words, " ")
}
