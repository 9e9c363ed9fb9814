package whatif

import (
	"fmt"
	"io"
	"strings"

	"github.com/sandboxd/sandboxd/policy/replay"
)

// PrintSuggested writes proposed rules for people. Since is the window of time, such as 7d.
func PrintSuggested(w io.Writer, s replay.Suggested, since string) {
	fmt.Fprintf(w, "people answered %s in the last %s\n", plural(s.Questions, "question"), since)
	for _, x := range s.Suggestions {
		answer := "refused"
		if x.Approved {
			answer = "allowed"
		}
		fmt.Fprintf(w, "\n%s %s by %s, such as: %s\n", plural(x.Questions, "call"), answer, strings.Join(x.By, ", "),
			oneLine(x.Example))
		if x.List != "" {
			fmt.Fprintf(w, "in the configuration:\n\npolicy:\n  rules:\n    %s:\n", x.List)
			for _, r := range x.Rules {
				fmt.Fprintf(w, "      - %q\n", r)
			}
		} else {
			fmt.Fprintf(w, "in the configuration:\n\npolicy:\n  disable: [%s]\n\n", x.Disable)
			fmt.Fprintf(w, "in %s, in a directory of policy.dirs:\n\n%s", x.File, x.Rego)
		}
		fmt.Fprintf(w, "\nit answers %d of these questions; ", x.Answered)
		if x.Others == 0 {
			fmt.Fprintln(w, "no other recorded call is judged otherwise")
			continue
		}
		fmt.Fprintf(w, "%s judged otherwise as well, such as:\n", plural(x.Others, "recorded call"))
		for _, such := range x.Such {
			fmt.Fprintf(w, "  %s\n", oneLine(such))
		}
	}
	if len(s.Suggestions) > 0 {
		fmt.Fprintln(w, "\nnothing of this is in force")
	}
	for i, l := range s.Left {
		if i == 0 {
			fmt.Fprintln(w, "\nno suggestion for:")
		}
		fmt.Fprintf(w, "%7d  %s\n", l.Calls, l.Why)
	}
}
