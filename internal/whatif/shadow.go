package whatif

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// PrintShadow writes for people where the policies in the shadow differ from those in force.
func PrintShadow(w io.Writer, r policy.ShadowReport) {
	switch {
	case r.Revision == "":
		fmt.Fprintln(w, "no policies judge in the shadow now")
	default:
		fmt.Fprintf(w, "revision %s of %s judges in the shadow since %s\n", r.Revision, strings.Join(r.Dirs, ", "),
			r.Since.Local().Format(time.DateTime))
	}
	if r.Failure != "" {
		fmt.Fprintf(w, "! its files do not load: %s\n", r.Failure)
	}
	fmt.Fprintf(w, "%s: %d judged alike, %d stricter, %d looser\n", plural(r.Calls, "call"), r.Same, r.Tighter,
		r.Looser)
	for _, x := range r.Rules {
		fmt.Fprintf(w, "%7d  %-5s -> %-5s  %s\n", x.Calls, x.Live, x.Shadow, x.Rule)
	}
	if r.Missed > 0 {
		fmt.Fprintf(w, "%7d  missed: too many calls waited for it\n", r.Missed)
	}
	for _, x := range r.Errors {
		fmt.Fprintf(w, "%7d  not compared: %s\n", x.Calls, x.Why)
	}
	for i, d := range r.Differences {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s  %s  %-5s -> %-5s  %s  %s\n", d.At.Local().Format(time.DateTime), d.CallID, d.Live.Verdict,
			d.Shadow.Verdict, d.Tool, oneLine(d.What))
	}
	if more := r.Total - len(r.Differences); more > 0 {
		fmt.Fprintf(w, "… and %d older ones\n", more)
	}
}
