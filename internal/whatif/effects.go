package whatif

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	document "github.com/sandboxd/sandboxd/policy/input"
)

// printEffects writes what the commands of a call would lose, publish or change elsewhere, as the
// rules saw it.
func printEffects(w io.Writer, seen json.RawMessage) {
	var doc struct {
		Commands []document.Command `json:"commands"`
		Paths    []document.Path    `json:"paths"`
		Plants   []document.Plant   `json:"plants"`
	}
	if json.Unmarshal(seen, &doc) != nil {
		return
	}
	for _, c := range doc.Commands {
		for _, d := range c.Deletes {
			what := []string{d.Raw}
			if d.Path != "" {
				what[0] = d.Path
			}
			if d.Tree {
				what = append(what, "with all below it")
			}
			if len(d.Names) > 0 {
				what = append(what, "named "+strings.Join(d.Names, ", "))
			} else if d.Many {
				what = append(what, "many files")
			}
			verb := "deletes"
			if len(d.To) > 0 {
				verb, what = "renames", append(what, "to /"+strings.Join(d.To, "/"))
			}
			effect(w, verb, strings.Join(what, ", "))
		}
		for _, d := range c.Discards {
			effect(w, "discards", d)
		}
		for _, r := range c.Remote {
			effect(w, r.Does, strings.Join(strings.Fields(r.Program+" "+r.Verb+" "+r.Target), " "))
		}
		for _, r := range c.RunsText {
			effect(w, "runs", strings.Join(strings.Fields(fmt.Sprintf("code from %s %s %s", r.From, r.Does,
				r.Part)), " "))
		}
	}
	for _, p := range doc.Paths {
		for _, l := range p.Loses {
			effect(w, "loses", l.Path+", of which git has no copy")
		}
	}
	for _, p := range doc.Plants {
		what := fmt.Sprintf("%s, which makes others run code (%s)", cmp.Or(p.Path, p.Raw), p.Program)
		if p.From != "" {
			what += ", from " + p.From
		}
		effect(w, "plants", what)
	}
}

func effect(w io.Writer, verb, what string) { fmt.Fprintf(w, "  %-9s %s\n", verb, what) }
