package policy

import (
	"encoding/json"
	"fmt"
	"io"
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
