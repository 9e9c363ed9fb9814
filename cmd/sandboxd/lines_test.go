package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/sandboxd/sandboxd/internal/audit"
	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
)

func entry(change func(*audit.Entry)) audit.Entry {
	zero := 0
	e := audit.Entry{
		Seq: 7, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local), Event: "end", Tool: "Bash", Call: "call_1",
		Verdict: "allow", Status: "SUCCESS", Exit: &zero, Ended: "exited", Usage: &tool.Usage{WallMS: 1234},
	}
	change(&e)
	return e
}

// TestACallIsOneLine: how it was judged, what came of it, how long it took, what it does.
func TestACallIsOneLine(t *testing.T) {
	one := 1
	for _, tt := range []struct {
		name   string
		change func(*audit.Entry)
		want   string
	}{
		{"it ran", func(*audit.Entry) {}, "03:04:05 allow    exit 0                1.2s  Bash   make all"},
		{"it failed", func(e *audit.Entry) { e.Exit = &one }, "03:04:05 allow    exit 1                1.2s  Bash   make all"},
		{
			"a limit ended it", func(e *audit.Entry) { e.Ended, e.ErrorCode, e.Usage.WallMS = "memory", "limit_memory", 130_000 },
			"03:04:05 allow    limit_memory         2m10s  Bash   make all",
		},
		{
			"denied", func(e *audit.Entry) { e.Verdict, e.ErrorCode, e.Exit, e.Usage.WallMS = "deny", "path_denied", nil, 3 },
			"03:04:05 deny     path_denied            3ms  Bash   make all  call_1",
		},
		{
			"an operator asked why it was denied", func(e *audit.Entry) {
				e.Verdict, e.ErrorCode, e.Exit, e.DryRun, e.Role = "deny", "path_denied", nil, true, "operator"
			},
			"03:04:05 deny     explained             1.2s  Bash   make all",
		},
		{
			"an agent asked how it would be judged", func(e *audit.Entry) {
				e.Verdict, e.Exit, e.DryRun, e.Role = "deny", nil, true, "agent"
			},
			"03:04:05 deny     judged                1.2s  Bash   make all  call_1",
		},
		{
			"approved", func(e *audit.Entry) {
				e.Verdict, e.Approval = "ask", &audit.Approval{Approved: true, By: "uid:0"}
			},
			"03:04:05 approved exit 0                1.2s  Bash   make all",
		},
		{
			"refused", func(e *audit.Entry) {
				e.Verdict, e.ErrorCode, e.Approval = "ask", "execution_rejected", &audit.Approval{By: "uid:0"}
			},
			"03:04:05 refused  execution_rejected    1.2s  Bash   make all  call_1",
		},
		{
			"nobody answered", func(e *audit.Entry) {
				e.Verdict, e.ErrorCode, e.Approval = "ask", "approval_timed_out", &audit.Approval{Code: "approval_timed_out"}
			},
			"03:04:05 ask      approval_timed_out    1.2s  Bash   make all  call_1",
		},
		{
			"no program", func(e *audit.Entry) { e.Tool, e.Exit, e.Ended = "Read", nil, "" },
			"03:04:05 allow    ok                    1.2s  Read   make all",
		},
		{
			"a signal ended it", func(e *audit.Entry) { e.Ended = "signal" },
			"03:04:05 allow    signal                1.2s  Bash   make all",
		},
		{
			"no program, and cancelled", func(e *audit.Entry) { e.Exit, e.Ended, e.Status = nil, "", "CANCELLED" },
			"03:04:05 allow    cancelled             1.2s  Bash   make all",
		},
		{"judged only", func(e *audit.Entry) { e.DryRun = true }, "03:04:05 allow    judged                1.2s  Bash   make all"},
		{"exec beside a daemon", func(e *audit.Entry) {
			*e = audit.Entry{Event: "exec_end", Time: e.Time, Tool: "Exec", Detail: map[string]string{
				"said_verdict": "allow", "said_status": "SUCCESS", "said_exit": "3", "said_wall_ms": "40",
			}}
		}, "03:04:05 allow    exit 3                40ms  Exec   make all"},
		{
			"it waits", func(e *audit.Entry) {
				*e = audit.Entry{
					Event: "approval_asked", Time: e.Time, Tool: "Bash", Detail: map[string]string{"approval": "apr_1"},
				}
			},
			"03:04:05 asks     waits                    -  Bash   make all  (sandboxd approvals approve apr_1)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, ok := lineOf(entry(tt.change))
			if !ok {
				t.Fatal("it is no call")
			}
			l.What = "make all"
			var b strings.Builder
			if err := l.print(&b, review.Screen{Width: 80}, false); err != nil {
				t.Fatal(err)
			}
			if got := b.String(); got != tt.want+"\n" {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
	l, _ := lineOf(audit.Entry{Event: "exec_end", Tool: "Exec", Detail: map[string]string{"said_dir": "/ws"}})
	if l.What != "in /ws" {
		t.Errorf("of exec beside a daemon people see %q", l.What)
	}
	for _, event := range []string{"begin", "checkpoint", "start", "approval_decided", "exec_begin"} {
		if _, ok := lineOf(audit.Entry{Event: event}); ok {
			t.Errorf("%s is taken for a call", event)
		}
	}
}

// TestLinesFitEveryTerminal: narrow ones get two rows, text of the model cannot draw, and
// colours are left out where they are not wanted.
func TestLinesFitEveryTerminal(t *testing.T) {
	l, _ := lineOf(entry(func(e *audit.Entry) {
		e.Verdict, e.Tool, e.ErrorCode = "deny", "Evil\x1b[2J\n", "hook_\x1b[31m_and_so_on"
	}))
	l.What = "echo '\x1b]0;title\x07'\n\u202e" + strings.Repeat("long ", 100)
	for _, s := range []review.Screen{
		{Width: 40, Terminal: true},
		{Width: 40, Terminal: true, Colour: true},
		{Width: 80, Terminal: true},
		{Width: 120, Terminal: true, Colour: true},
		{Width: 80},
	} {
		for _, number := range []bool{false, true} {
			var b strings.Builder
			if err := l.print(&b, s, number); err != nil {
				t.Fatal(err)
			}
			text := b.String()
			if s.Colour != strings.Contains(text, "\x1b[1;31mdeny") {
				t.Errorf("%+v: %q", s, text)
			}
			for _, colour := range []string{"\x1b[1;31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"} {
				text = strings.ReplaceAll(text, colour, "")
			}
			for _, r := range text {
				if r != '\n' && (unicode.IsControl(r) || r == '\u202e') {
					t.Errorf("%+v: %q reaches the terminal", s, r)
				}
			}
			rows := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if want, ok := map[int]int{40: 3, 120: 2}[s.Width]; ok && len(rows) != want {
				t.Errorf("%+v: %d rows: %q", s, len(rows), rows)
			}
			for _, row := range rows {
				if n := len([]rune(row)); s.Terminal && n > s.Width {
					t.Errorf("%+v: %d columns: %q", s, n, row)
				}
			}
			if !s.Terminal && (len(rows) != 1 || strings.Count(rows[0], "long") != 100) {
				t.Errorf("a program reads %q", rows)
			}
		}
	}
}

// TestTheAnswerIsNeverCut: on a terminal the command that answers has a row of its own.
func TestTheAnswerIsNeverCut(t *testing.T) {
	l, _ := lineOf(audit.Entry{Event: "approval_asked", Tool: "Bash", Detail: map[string]string{"approval": "apr_123"}})
	l.What = strings.Repeat("long ", 100)
	for _, width := range []int{40, 80, 120} {
		var b strings.Builder
		if err := l.print(&b, review.Screen{Width: width, Terminal: true}, false); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), "…\n  (sandboxd approvals approve apr_123)\n") {
			t.Errorf("%d columns: %q", width, b.String())
		}
	}
}

func TestWhatACallDidComesFromItsDecision(t *testing.T) {
	for input, want := range map[string]string{
		`{"params": {"description": "d", "command": "ls -l"}}`: "ls -l",
		`{"params": {"content": "x", "file_path": "/a"}}`:      "/a",
		`{"params": {"argv": ["git", "commit", "-m", "a b"]}}`: "git commit -m 'a b'",
		`{"params": {"n": 1}}`:                                 `{"n": 1}`,
		`{"params": {}}`:                                       "{}",
		`{}`:                                                   "",
		``:                                                     "",
	} {
		var l callLine
		l.fill(t.Context(), func(context.Context, string) (policy.Record, error) {
			return policy.Record{Explanation: policy.Explanation{Input: json.RawMessage(input)}}, nil
		})
		if l.What != want {
			t.Errorf("%s: got %q, want %q", input, l.What, want)
		}
	}
	var l callLine
	l.fill(t.Context(), func(context.Context, string) (policy.Record, error) {
		return policy.Record{}, policy.ErrNoDecision
	})
	if l.What != "" {
		t.Errorf("got %q of a decision that is gone", l.What)
	}
}

// What is damaged in the record is said, and no reason to show nothing.
func TestADamagedRecordIsShown(t *testing.T) {
	for _, tt := range []struct {
		name string
		show func(w io.Writer) error
		want string
	}{
		{"a line that is none", func(w io.Writer) error {
			return recordReader{out: w}.printEntry(t.Context(), []byte("torn"))
		}, "(not a line of the log: 4 bytes)\n"},
		{"an end that a crash tore", func(w io.Writer) error {
			return printReport(w, audit.Report{Lines: 7, TornBytes: 9}, false)
		}, "torn by a crash        9 bytes of line 8\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := tt.show(&b); err != nil || !strings.Contains(b.String(), tt.want) {
				t.Errorf("%v, want %q in %q", err, tt.want, b.String())
			}
		})
	}
}

// Ctrl-C ends log --follow, which is no error.
func TestFollowingEndsWithTheCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := new(calls).follow(ctx); err != nil {
		t.Error(err)
	}
}
