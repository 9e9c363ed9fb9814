package policy

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tool"
)

// Explanation is why a call is judged as it is.
type Explanation struct {
	Decision tool.Decision   `json:"decision"`
	Input    json.RawMessage `json:"input,omitempty"` // what the rules saw
	Findings []Finding       `json:"findings"`        // in the order of their packages, those without effect included
	Note     string          `json:"note,omitempty"`  // why something is missing
	Nearest  string          `json:"nearest,omitempty"`
}

// Explain says what a decision was made of.
func Explain(d tool.Decision) (Explanation, error) {
	x := Explanation{Decision: d, Findings: []Finding{}}
	seen, ok := d.Judged.(*evidence)
	if !ok {
		x.Note = "no rule was asked"
		return x, nil
	}
	x.Findings = append(x.Findings, seen.findings...)
	var err error
	x.Input, err = seen.input.JSON()
	return x, err
}

// JSON is the document as the rules see it.
func (in *Input) JSON() (json.RawMessage, error) {
	plain, err := ast.JSON(whole(in.value(nil)))
	if err != nil {
		return nil, err
	}
	return json.Marshal(plain)
}

// MarshalJSON is JSON, so that a list without elements is [] everywhere.
func (in *Input) MarshalJSON() ([]byte, error) { return in.JSON() }

// PrintDecision writes a decision for people: the verdict, who decided, then each
// reason with its place and hint. text is the command line, or "".
func PrintDecision(w io.Writer, d tool.Decision, text string) {
	fmt.Fprintf(w, "%s, decided by the %s (policy revision %s)\n", d.Verdict, layerName(d.By), d.Revision)
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

func layerName(b tool.By) string {
	switch b {
	case tool.ByRule:
		return "rules"
	case tool.ByMode:
		return "mode"
	case tool.ByFloor:
		return "sandbox settings"
	case tool.ByTool:
		return "tool"
	case tool.ByHook:
		return "hooks"
	}
	return "engine, which failed"
}
