package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/api"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/runner"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transfer"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
	"github.com/sandboxd/sandboxd/shellparse"
)

// The place of a reason is marked in its own line, and of a long line only the part around it is shown.
func TestThePlaceOfAReasonIsMarked(t *testing.T) {
	long := strings.Repeat("é", 100) + " rm x " + strings.Repeat("b", 100)
	at := int32(strings.Index(long, "rm"))
	for _, tt := range []struct {
		name, text string
		at         shellparse.Pos
		want       string
	}{
		{"no place", "rm x", shellparse.Pos{}, ""},
		{"a place behind the text", "rm x", shellparse.Pos{Offset: 9, End: 12, Line: 1}, ""},
		{"one of several lines", "cd a\nrm x\nls", shellparse.Pos{Offset: 5, End: 9, Line: 2}, "    rm x\n    ^^^^\n"},
		{
			"a long line", long,
			shellparse.Pos{Offset: at, End: at + 2, Line: 1},
			"    …" + strings.Repeat("é", 24) + " rm x " + strings.Repeat("b", 100) + "\n" +
				strings.Repeat(" ", 30) + "^^\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if showPlace(&b, tt.text, tt.at); b.String() != tt.want {
				t.Errorf("got\n%swant\n%s", b.String(), tt.want)
			}
		})
	}
}

func TestTheResultOfPolicyTestsIsShown(t *testing.T) {
	var b strings.Builder
	printTests(&b, policy.TestReport{
		Tests: []policy.TestResult{
			{Name: "test_good", Pass: true},
			{Name: "todo_test_later", Skip: true},
			{Name: "test_bad", File: "a.rego", Line: 3},
			{Name: "test_ill", File: "a.rego", Line: 5, Error: "no such rule"},
		},
		Examples: "acme.one: ls is allowed",
		Coverage: []policy.FileCoverage{{File: "a.rego", Percent: 50, Missing: []int{4}}},
	})
	const want = `skip todo_test_later
FAIL test_bad
     a.rego:3
FAIL test_ill
     a.rego:5
     no such rule
FAIL examples
acme.one: ls is allowed
 50.0 %  a.rego  not run: lines [4]
1 of 4 tests passed
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// A database of another version says what to do about it.
func TestAStoreOfAnotherVersionSaysWhatToDo(t *testing.T) {
	var b strings.Builder
	err := printStore(&b, daemon.StoreState{Schemas: []daemon.StoreSchema{
		{Name: "old", Version: 1, Known: 2}, {Name: "same", Version: 2, Known: 2}, {Name: "new", Version: 3, Known: 2},
	}})
	const want = "old     1 of 2: sandboxd store migrate\nsame    2\nnew     3, this program knows 2: update it\n"
	if err != nil || !strings.Contains(b.String(), want) {
		t.Errorf("%v, want %q in\n%s", err, want, b.String())
	}
}

// On a terminal the progress of a copy is one line; elsewhere each table has a line.
func TestTheProgressOfACopy(t *testing.T) {
	for _, tt := range []struct {
		name     string
		terminal bool
		want     string
	}{
		{"on a terminal", true, "\r\x1b[Kcopy sessions: 0 of 2\r\x1b[Kcopy sessions: 2 of 2\n"},
		{"in a file", false, "copy sessions: 2 of 2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			p := &progress{out: f}
			if tt.terminal {
				p.terminal = f
			}
			p.told(transfer.Progress{Step: "copy", Table: "sessions", Of: 2})
			p.told(transfer.Progress{Step: "copy", Table: "sessions", Rows: 2, Of: 2, Done: true})
			p.end()
			if got, err := os.ReadFile(f.Name()); err != nil || string(got) != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// What ended a command that exec ran is said, and its own status is kept.
func TestExecSaysWhatEndedTheCommand(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  sandbox.Exit
		want string
	}{
		{"itself", sandbox.Exit{Code: 3}, ""},
		{"the time limit", sandbox.Exit{Code: 3, TimedOut: true}, "error: the time limit ended the command\n"},
		{"another limit", sandbox.Exit{Code: 3, Limit: "memory"}, "reached a limit of the sandbox: memory\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var errs strings.Builder
			err := execStatus(&errs, &runner.Program{Ended: &tt.end}, tool.Result{Status: tool.StatusSuccess})
			said := errs.String()
			if err != error(exitStatus(3)) || !strings.HasSuffix(said, tt.want) || (tt.want == "") != (said == "") {
				t.Errorf("got %v and %q, want %q", err, said, tt.want)
			}
		})
	}
}

// A report goes into a device as into any open file, and one that cannot be written leaves nothing behind.
func TestTheReportOfExecIsWritten(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := writeReport(fmt.Sprintf("/dev/fd/%d", w.Fd()), tool.Result{CallID: "call_1"}); err != nil {
		t.Error(err)
	}
	w.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Contains(got, []byte(`"call_1"`)) {
		t.Errorf("the pipe has %q, %v", got, err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeReport(filepath.Join(dir, "taken"), tool.Result{}); err == nil {
		t.Error("a directory was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// A connection about which the daemon cannot be asked is denied, and the reason says so.
func TestWithoutADaemonALeasedCallConnectsNowhere(t *testing.T) {
	t.Setenv("SANDBOXD_SOCKET", filepath.Join(t.TempDir(), "none"))
	judge := (&leaseConnections{ended: map[client.Closed]chan struct{}{}}).judge("call_1")
	v := judge(t.Context(), egress.Connection{Host: "a.example", Port: 443})
	if v.Allow || v.Rule != "core.connection" || !strings.HasPrefix(v.Reason, "the daemon could not be asked: ") {
		t.Errorf("got %+v", v)
	}
}

// Who waits for a daemon that starts again is told where to look if it does not.
func TestADaemonThatDoesNotStartAgainIsAnError(t *testing.T) {
	t.Setenv("SANDBOXD_OPERATOR_SOCKET", filepath.Join(t.TempDir(), "none"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &cobra.Command{}
	c.SetContext(ctx)
	c.SetErr(io.Discard)
	err := startedAgain(c, api.ConfigStatus{Lacking: []string{"ann"}, StartsAgain: true, Loaded: time.Unix(1, 0)})
	const want = "the daemon does not answer since it started again; its log says why"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

// A person who has left sees no more, and keys that cannot be read stop nobody.
func TestThePagerEndsWhereAPersonLeaves(t *testing.T) {
	keys, w, err := os.Pipe() // no terminal, so that it cannot wait for keys
	if err != nil {
		t.Fatal(err)
	}
	defer errors.Join(keys.Close(), w.Close())
	var b strings.Builder
	p := &pager{out: &b, raw: io.Discard, keys: keys, size: func() (int, int) { return 80, 3 }}
	message := []byte(`{"role": "user", "content": "one\ntwo\nthree"}`)
	if !sayMessage(p, review.Screen{}, message) || b.String() != "\nuser\n  one\n  two\n  three\n" {
		t.Errorf("got %q", b.String())
	}
	b.Reset()
	p.left = true
	if sayMessage(p, review.Screen{}, message) || b.String() != "" {
		t.Errorf("after the person left: %q", b.String())
	}
}

// What was shown while the call ran is not in its error again.
func TestAnErrorDoesNotRepeatWhatWasShown(t *testing.T) {
	r := tool.Result{Error: &tool.Error{Msg: "it timed out; until then it wrote\none\n"}}
	var out strings.Builder
	p := &printer{out: &out, shown: true, ends: 'e'}
	if !p.end(&r) || r.Error.Msg != "it timed out" || out.String() != "\n" {
		t.Errorf("got %q and %q", r.Error.Msg, out.String())
	}
}
