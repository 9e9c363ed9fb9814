package loop

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// An error stays whole, however long; no model is asked about it.
func TestT61_ALongErrorStaysWhole(t *testing.T) {
	w := &work{Agent: &Agent{options: Options{Condense: true}}}
	r := client.Result{FormattedText: strings.Repeat("x", longResult+1), FinalText: strings.Repeat("y", longResult+1)}
	if got := w.condense(t.Context(), r, true); got != r.FinalText {
		t.Errorf("got %.40q of %d bytes", got, len(got))
	}
}
