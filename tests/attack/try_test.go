package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/golden"
	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// promise is what the daemon says, and who tries to break it.
type promise struct {
	name   string // a sentence
	config string // of the daemon that is attacked
	root   bool   // as root alone, who becomes several users and mounts disks
	kernel bool   // the sandbox keeps it, which is another one for root
	tries  []try
}

// try is one way to break a promise.
type try struct {
	name string // what is tried, in words
	want string // how it is stopped
	run  func(w *world) (outcome string, told []byte)
}

// How a call is stopped.
const (
	denied    = "denied"    // judged, and never run
	asked     = "asked"     // a person was asked, and refused
	contained = "contained" // it ran in the sandbox and got nothing
	refused   = "refused"   // the request is an error
	withheld  = "withheld"  // it ran, and nobody got the result
	notRun    = "not run"   // there was no sandbox to run it in
)

// line is a try with one command line.
func line(name, want, command string) try {
	return lines(name, want, command)
}

// lines is a try with several calls of one session; the outcome is that of the last. Where
// the sandbox is what must hold, a person who is asked says yes.
func lines(name, want string, commands ...string) try {
	return try{name, want, func(w *world) (string, []byte) {
		if want == contained {
			w.answer = func(question) map[string]any { return map[string]any{"approved": true} }
			defer func() { w.answer = nil }()
		}
		s := w.session()
		outcome, told := "", []byte(nil)
		for _, c := range commands {
			o, b := w.outcome(s, "Bash", bash(w.fill(c)))
			outcome, told = o, append(told, b...)
		}
		return outcome, told
	}}
}

// tool is a try with one call of a tool.
func tool(name, want, tool, args string) try {
	return try{name, want, func(w *world) (string, []byte) {
		return w.outcome(w.session(), tool, w.fill(args))
	}}
}

// outcome makes one call and says how it was stopped.
func (w *world) outcome(session, tool, args string) (string, []byte) {
	w.t.Helper()
	r := w.call(session, tool, args)
	told, err := json.Marshal(r)
	w.must(err)
	return stopped(r), told
}

func stopped(r client.Result) string {
	switch {
	case r.Status == client.StatusExecutionRejected || r.Status == client.StatusResultRejected:
		return asked
	case r.Error != nil && (r.Error.Stage == "judge" || r.Error.Stage == "before" || r.Error.Stage == "lookup" ||
		r.Error.Stage == "resolve" || r.Error.Stage == "approve"):
		return denied
	}
	if r.Error != nil && r.Error.Code == "record_failed" {
		return withheld
	}
	if r.Error != nil && r.Error.Code == "sandbox_failed" {
		return notRun
	}
	return contained
}

func TestPromises(t *testing.T) {
	for _, p := range promises() {
		t.Run(p.name, func(t *testing.T) {
			if p.root {
				needs.Root(t, "to become several users and to mount disks")
			}
			uids := []int{os.Getuid()}
			switch {
			case os.Getuid() != 0 || p.root:
			case p.kernel || tier.IsLong():
				uids = append(uids, 12345)
			default: // most daemons are no daemons of root
				uids = []int{12345}
			}
			for _, uid := range uids {
				t.Run(fmt.Sprintf("uid %d", uid), func(t *testing.T) {
					w := newWorld(t, uid, p.config)
					w.start()
					for _, x := range p.tries {
						w.attempt(t, x)
					}
				})
			}
		})
	}
}

// alike are tries that make long alone runs, each with one of the gate that it is much like.
var alike = map[string]string{
	"one file after the other":             "one file",
	"many calls at once":                   "a batch of calls",
	"files in an endless loop":             "one file",
	"a file with a hole that is filled":    "one file",
	"many names of one file":               "one file",
	"a file in a directory without rights": "one file",
	"the old content of a large file":      "old contents of many files",
	"again and again":                      "one file",
	"variables made of references":         "variables",
}

// attempt runs one try and looks at the host.
func (w *world) attempt(t *testing.T, x try) {
	t.Run(x.name, func(t *testing.T) {
		if other := alike[x.name]; other != "" {
			tier.Long(t, "it is much like: "+other)
		}
		outer := w.t
		w.t = t
		defer func() { w.t = outer }()
		w.fresh()
		w.look()
		outcome, told := x.run(w)
		w.endSessions()
		if harm := w.harm(told); harm != "" {
			t.Errorf("BROKEN: %s (%s)\n%s", harm, outcome, told)
			w.hits.Store(0)
		}
		if outcome == contained && bytes.Contains(told, []byte("command not found")) {
			t.Errorf("nothing was tried: %s", told)
		}
		if outcome != x.want {
			t.Errorf("it was %q, want %q\n%s", outcome, x.want, told)
		}
	})
}

// TestAlikeNamesTries: a name that no try has, or two have, would keep nothing, or too much, out of the gate.
func TestAlikeNamesTries(t *testing.T) {
	n := map[string]int{}
	for _, p := range promises() {
		for _, x := range p.tries {
			n[x.name]++
		}
	}
	for name, other := range alike {
		if n[name] != 1 || n[other] != 1 || alike[other] != "" {
			t.Errorf("%q is like %q: %d and %d tries have these names", name, other, n[name], n[other])
		}
	}
}

// TestGeneratedTableOfPromises writes the table of docs/security.md.
func TestGeneratedTableOfPromises(t *testing.T) {
	var b strings.Builder
	n, long := 0, 0
	for _, p := range promises() {
		n += len(p.tries)
		for _, x := range p.tries {
			if alike[x.name] != "" {
				long++
			}
		}
	}
	fmt.Fprintf(&b, "%d tries in `tests/attack`, in every `make test`; %d that are like others are in `make long` alone.\n\n| promise | try | outcome |\n| --- | --- | --- |\n", n-long, long)
	seen := map[string]bool{}
	for _, p := range promises() {
		for i, x := range p.tries {
			name := p.name
			if i > 0 {
				name = ""
			}
			if seen[p.name+x.name] {
				t.Errorf("%s: %q is there twice", p.name, x.name)
			}
			seen[p.name+x.name] = true
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, strings.ReplaceAll(x.name, "|", `\|`), x.want)
		}
	}
	if n < 200 {
		t.Errorf("%d tries, want 200", n)
	}
	golden.Section(t, "../../docs/security.md", "promises", b.String())
}
