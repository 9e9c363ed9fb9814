package main

import (
	"fmt"
	"io"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// sayWaiting prints one line each time a call waits: for whom, how long, and the
// command that answers. The line begins with "waiting", for programs that read stderr.
func sayWaiting(out io.Writer) func(client.Progress) {
	return func(p client.Progress) {
		w := p.Waiting
		if w == nil {
			return
		}
		what, answer := "allow this call", "approve "+w.Approval
		switch w.Type {
		case "result":
			what = "let the model see the result"
		case "question":
			what, answer = "answer the model", "answer "+w.Approval+" TEXT"
		}
		because := ""
		if len(w.Why) > 0 {
			because = " (" + visible.Text(w.Why[0].Message) + ")"
		}
		fmt.Fprintf(out, "waiting up to %s for an operator to %s%s; answer with: sandboxd approvals %s\n",
			w.Until.Sub(w.Asked).Round(time.Second), what, because, answer)
	}
}
