package whatif

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// PrintExplanation writes why a call is judged as it is, and what it would lose, publish or change
// elsewhere.
func PrintExplanation(w io.Writer, x policy.Explanation) {
	policy.PrintDecision(w, x.Decision, commandLine(x.Input))
	printEffects(w, x.Input)
	shown := map[string]bool{}
	for _, r := range x.Decision.Reasons {
		shown[r.Rule] = true
	}
	for _, f := range x.Findings {
		switch {
		case f.Effect == policy.EffectCount:
			fmt.Fprintf(w, "  counted as %s: %s\n", f.ID, f.Message)
		case !shown[f.ID]:
			fmt.Fprintf(w, "  also %s wants %s: %s\n", f.ID, f.Effect, f.Message)
		}
	}
	if x.Note != "" {
		fmt.Fprintf(w, "note: %s\n", x.Note)
	}
	if x.Nearest != "" {
		fmt.Fprintf(w, "it would be allowed %s\n", x.Nearest)
	}
}

// PrintPast writes how a call was judged, and when.
func PrintPast(w io.Writer, rec policy.Record) {
	fmt.Fprintf(w, "%s of session %s at %s, in mode %s\n", rec.Tool, rec.Session, rec.At.Local().Format(time.DateTime),
		rec.Mode)
	if line := commandLine(rec.Input); line != "" {
		fmt.Fprintf(w, "  %q\n", line)
	}
	PrintExplanation(w, rec.Explanation)
}

// commandLine returns the command that the rules saw, or "".
func commandLine(input json.RawMessage) string {
	var in struct {
		Params struct {
			Command string `json:"command"`
		} `json:"params"`
	}
	_ = json.Unmarshal(input, &in) // without a command there is nothing to show
	return in.Params.Command
}
