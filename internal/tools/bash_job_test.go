package tools

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/sandbox"
)

// streams is a job that notes what its tool asks of it.
type streams struct {
	rows, columns int
	input         bool
	text          string // printed, as far as it is kept
	total         int64
}

func (*streams) ID() string          { return "job_1" }
func (*streams) Wall() time.Duration { return 7 * time.Second }
func (*streams) Output() io.Writer   { return io.Discard }
func (s *streams) Printed(int) (string, int64, bool) {
	return s.text, s.total, int64(len(s.text)) == s.total
}
func (*streams) Answered() bool             { return false }
func (*streams) Started(sandbox.Proc)       {}
func (*streams) Ended(sandbox.Exit)         {}
func (*streams) Agent(string, string)       {}
func (*streams) Author(tool.Origin)         {}
func (s *streams) Input() (*os.File, error) { s.input = true; return os.Open(os.DevNull) }
func (s *streams) Terminal(rows, columns int) (*os.File, error) {
	s.rows, s.columns = rows, columns
	return os.Open(os.DevNull)
}

// patientBox starts nothing, for a thousand hours or until its call is over.
type patientBox struct {
	*toolstest.HostBox
	spec sandbox.Spec
	took time.Duration
}

const patience = 1000 * time.Hour

func (b *patientBox) Start(ctx context.Context, s sandbox.Spec) (sandbox.Proc, error) {
	began := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(patience):
	}
	b.spec, b.took = s, time.Since(began)
	return nil, context.DeadlineExceeded
}

// TestAJobEndsWhenItsCallSays: its own timeout counts in the background alone, and its wall clock is that of jobs.
func TestAJobEndsWhenItsCallSays(t *testing.T) {
	e := toolstest.New(t)
	for _, tt := range []struct {
		name string
		args m
		want time.Duration
	}{
		{"a timeout in the background", m{"run_in_background": true, "timeout": 5000}, 5 * time.Second},
		{"none in the background", m{"run_in_background": true}, patience},
		{"a timeout at which it becomes a job", m{"on_timeout": "background", "timeout": 5000}, patience},
	} {
		tt.args["command"] = "true"
		in := e.In(tt.args)
		synctest.Test(t, func(t *testing.T) {
			box := &patientBox{HostBox: e.Box}
			in.Job = &streams{}
			if _, err := (Bash{}).Run(t.Context(), in, box); err == nil || box.took != tt.want {
				t.Errorf("%s: it ended after %v (%v), want %v", tt.name, box.took, err, tt.want)
			}
			if !box.spec.Lasting || box.spec.Limits.WallSeconds != 7 {
				t.Errorf("%s: it is started with %+v", tt.name, box.spec)
			}
		})
	}
}

func TestWhatAJobReads(t *testing.T) {
	for _, tt := range []struct {
		name          string
		args          bashArgs
		rows, columns int
		input         bool
	}{
		{"in the background it can be typed into", bashArgs{Background: true}, 0, 0, true},
		{"what becomes one later has an empty input", bashArgs{OnTimeout: onTimeoutBackground}, 0, 0, false},
		{"a terminal of the usual size", bashArgs{Background: true, TTY: true}, 24, 80, false},
		{"of other rows", bashArgs{Background: true, TTY: true, Rows: 30}, 30, 80, false},
		{"of other columns", bashArgs{Background: true, TTY: true, Columns: 90}, 24, 90, false},
	} {
		job, spec := &streams{}, sandbox.Spec{}
		closeOurs, err := tt.args.streams(job, &spec)
		if err != nil {
			t.Fatal(err)
		}
		if job.rows != tt.rows || job.columns != tt.columns || job.input != tt.input ||
			spec.Terminal != tt.args.TTY || (spec.Stdin != nil) != (tt.input || tt.args.TTY) {
			t.Errorf("%s: asked for %+v, started with %+v", tt.name, job, spec)
		}
		closeOurs()
	}
}

func TestAJobLeavesTheSessionWhereItIs(t *testing.T) {
	e := toolstest.New(t)
	e.Write("sub/f", "")
	for _, tt := range []struct {
		name  string
		tool  tool.Tool
		args  m
		moves bool
	}{
		{"in the background", Bash{}, m{"command": "cd sub", "run_in_background": true}, false},
		{"as Codex calls it", ExecCommand{}, m{"cmd": "cd sub"}, false},
		{"one that ended in time is no job", Bash{}, m{"command": "cd sub", "on_timeout": "background"}, true},
	} {
		in := e.In(tt.args)
		var err error
		if in.Judged, err = tt.tool.Uses(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		in.Job = &streams{}
		out, err := tt.tool.Run(t.Context(), in, e.Box)
		if err != nil || (out.Dir != "") != tt.moves {
			t.Errorf("%s: the session goes to %q, %v", tt.name, out.Dir, err)
		}
	}
}

// TestExecCommandOnATerminal: write_stdin types into it, so a shell there runs what nobody has judged.
func TestExecCommandOnATerminal(t *testing.T) {
	e := toolstest.New(t)
	for _, tty := range []bool{true, false} {
		in := e.In(m{"cmd": "bash", "tty": tty})
		uses, err := ExecCommand{}.Uses(t.Context(), in)
		if err != nil || (len(uses.Script.Opaque) > 0) != tty {
			t.Errorf("tty %v: it is judged as %+v, %v", tty, uses.Script, err)
		}
		in = e.In(m{"cmd": "true", "tty": tty})
		job := &streams{}
		in.Job = job
		_, err = ExecCommand{}.Run(t.Context(), in, e.Box)
		if err != nil || (job.rows == 24 && job.columns == 80) != tty {
			t.Errorf("tty %v: asked for %+v, %v", tty, job, err)
		}
	}
}

// TestAJobSaysThatOutputIsLeftOut: also where that is not the middle, but the beginning.
func TestAJobSaysThatOutputIsLeftOut(t *testing.T) {
	e := toolstest.New(t)
	for _, tt := range []struct {
		name string
		job  streams
		want string
	}{
		{"all is there", streams{text: "all", total: 3}, "all"},
		{"a part is not", streams{text: "...(truncated)...end", total: 70_000}, "[the output had 70000 bytes, and parts of it are left out]"},
	} {
		in := e.In(m{"command": "true", "run_in_background": true})
		in.Job = &tt.job
		out, err := (Bash{}).Run(t.Context(), in, e.Box)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		data := out.Data.(bashData)
		if left := strings.Contains(strings.Join(data.Notes, "\n"), "left out"); data.Truncated != left || left != (tt.job.total > 3) {
			t.Errorf("%s: truncated %v, notes %q", tt.name, data.Truncated, data.Notes)
		}
		if text := data.Stdout + strings.Join(data.Notes, "\n"); !strings.Contains(text, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, text, tt.want)
		}
	}
}
