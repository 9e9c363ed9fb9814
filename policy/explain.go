package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/shellparse"
	"github.com/sandboxd/sandboxd/tool"
)

// maxNearest bounds the search for a change that would be allowed.
const maxNearest = 50

// Explanation is why a call is judged as it is.
type Explanation struct {
	Decision tool.Decision   `json:"decision"`
	Input    json.RawMessage `json:"input"`             // what the rules saw
	Findings []Finding       `json:"findings"`          // in the order of their packages, those without effect included
	Nearest  string          `json:"nearest,omitempty"` // a change after which it would be allowed
}

// Explain judges c as Decide does and says why. With nearest it also searches for
// a small change after which the call would be allowed, with at most 50 more
// evaluations.
func (e *Engine) Explain(ctx context.Context, c *tool.Call, nearest bool) (Explanation, error) {
	d, in := e.judge(ctx, c)
	x := Explanation{Decision: d, Findings: []Finding{}}
	if in != nil {
		b, err := in.JSON()
		if err != nil {
			return x, err
		}
		x.Input = b
		// The findings of an evaluation that failed are in the decision's reasons.
		if fs, err := e.current.Load().evaluate(ctx, in, e.opts.Deadline); err == nil {
			x.Findings = append(x.Findings, fs...)
		}
	}
	if nearest && d.Verdict != tool.Allow && !answered(d, c) {
		x.Nearest = e.nearest(ctx, c)
	}
	return x, ctx.Err()
}

// JSON is the document as the rules see it.
func (in *Input) JSON() (json.RawMessage, error) {
	whole := ast.NewObject() // the lazy object converts what it holds only when it is read
	in.value().(ast.Object).Foreach(whole.Insert)
	plain, err := ast.JSON(whole)
	if err != nil {
		return nil, err
	}
	return json.Marshal(plain)
}

// MarshalJSON is JSON, so that a list without elements is [] everywhere.
func (in *Input) MarshalJSON() ([]byte, error) { return in.JSON() }

// nearest tries to leave out one option of one command, then one other word, then
// one command, then the looser modes, and describes the first that is allowed.
func (e *Engine) nearest(ctx context.Context, c *tool.Call) string {
	tries := 0
	allowed := func(v *tool.Call) bool {
		if tries++; tries > maxNearest || ctx.Err() != nil {
			return false
		}
		d, _ := e.judge(ctx, v)
		return d.Args == nil && (d.Verdict == tool.Allow || answered(d, v))
	}
	if s := c.Facts.Uses.Script; s != nil {
		for _, options := range []bool{true, false} {
			for i, cmd := range s.Commands {
				for j, w := range cmd.Args {
					if strings.HasPrefix(w.Text, "-") == options && allowed(withScript(c, s, func(cs []shellparse.Command) []shellparse.Command {
						cs[i].Args = slices.Delete(slices.Clone(cmd.Args), j, j+1)
						return cs
					})) {
						return fmt.Sprintf("without %q in %q", w.Text, commandText(cmd))
					}
				}
			}
		}
		for i, cmd := range s.Commands {
			if len(s.Commands) > 1 && allowed(withScript(c, s, func(cs []shellparse.Command) []shellparse.Command {
				return slices.Delete(cs, i, i+1)
			})) {
				return fmt.Sprintf("without %q", commandText(cmd))
			}
		}
	}
	for _, mode := range Modes {
		if Looser(mode, c.Session.Mode) {
			v := *c
			v.Session.Mode, v.Facts.Mode = mode, mode
			if allowed(&v) {
				return "in mode " + mode
			}
		}
	}
	return ""
}

// answered reports whether the settings answer what only the mode asks: commands
// that run in the sandbox pass with autoAllowBashIfSandboxed (CX-38).
func answered(d tool.Decision, c *tool.Call) bool {
	return d.Verdict == tool.Ask && d.By == tool.ByMode && c.Spec.Class == tool.ClassExec && c.Settings.AutoAllowBashIfSandboxed
}

// withScript is a copy of c with other commands.
func withScript(c *tool.Call, s *shellparse.Script, change func([]shellparse.Command) []shellparse.Command) *tool.Call {
	v, t := *c, *s
	t.Commands = change(slices.Clone(s.Commands))
	v.Facts.Uses.Script = &t
	return &v
}

func commandText(c shellparse.Command) string {
	words := []string{c.Name}
	for _, w := range c.Args {
		words = append(words, w.Text)
	}
	return strings.Join(words, " ")
}

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
